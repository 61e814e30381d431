package schedule_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun/schedule"
)

func ExampleSpec_Resolve() {
	spec := schedule.Spec{Date: "yesterday", Zone: "Asia/Seoul", DayStart: "06:00", At: "2026-09-15T05:30:00+09:00"}
	slot, err := spec.Resolve(time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(slot.Partition) // 05:30 still belongs to the 14th, and yesterday is the day before

	spec.Zone = ""
	_, err = spec.Resolve(time.Now())
	fmt.Println(err)
	// Output:
	// 2026-09-13
	// --tz: --date yesterday depends on a time zone and none is given; name one with --tz, ONERUN_TZ or the config file, such as Asia/Seoul, or say --tz local for this host's zone
}

func ExampleParseCalendar() {
	holidays, err := schedule.ParseCalendar(strings.NewReader("2026-09-24 # Chuseok\n2026-09-25\n"), "kr.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := schedule.Spec{Date: "previous-business-day", Zone: "Asia/Seoul", Calendar: holidays, At: "2026-09-28T01:00:00+09:00"}
	slot, err := spec.Resolve(time.Now())
	fmt.Println(slot.BusinessDate, err)
	// Output:
	// 2026-09-23 <nil>
}
