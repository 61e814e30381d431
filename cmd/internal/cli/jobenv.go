package cli

import (
	"os"
	"strconv"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/process"
)

// withheld is the job's ONERUN_STORE below onerun lock where it can't find the store by itself: an onerun in it must not take
// the embedded one instead. Below onerun run the run's id says so.
const withheld = "@"

// environment is what the job gets to know, and the rest unchanged. ONERUN_OWNER is
// how its processes are found when the process group was not noted in time.
func (x *execution) environment(o *onerun.Owner) []string {
	run, lease := o.Run(), o.Lease()
	set := map[string]string{
		"ONERUN_NAMESPACE": lease.Namespace,
		"ONERUN_OWNER":     lease.Owner,
	}
	var unset []string
	own := func(name, value string) {
		if value != "" {
			set[name] = value
		} else {
			unset = append(unset, name) // an outer job's is not this one's
		}
	}
	token := "" // a run without a claim has none
	if !unclaimed(lease) {
		token = strconv.FormatInt(lease.Token, 10)
	}
	own("ONERUN_TOKEN", token)
	own("ONERUN_TMPDIR", x.private.tmp)
	if lease.RunID != "" {
		own("ONERUN_SOCKET", x.private.socket)
		set["ONERUN_JOB"] = run.Job
		set["ONERUN_KEY"] = run.Key()
		set["ONERUN_PARTITION"] = run.Partition
		set["ONERUN_BUSINESS_DATE"] = run.BusinessDate
		set["ONERUN_ATTEMPT"] = strconv.Itoa(lease.Attempt)
		set["ONERUN_RUN_ID"] = lease.RunID
	}
	switch {
	case lease.RunID == "" && (x.place.secret || x.place.source == "" && os.Getenv("ONERUN_STORE") == ""):
		set["ONERUN_STORE"] = withheld
	case x.place.secret:
		unset = append(unset, "ONERUN_STORE")
	}
	return process.Env(os.Environ(), set, unset...)
}
