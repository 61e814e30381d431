package postgres

import (
	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// deadRow is an owner whose work is over, in a request.
type deadRow struct {
	Void     bool    `json:"void"`
	Evidence *string `json:"evidence"`
	Error    string  `json:"error"` // what its attempt says then
}

// tell puts what the claim's host knows into a request, if it knows anything.
func (p *claimRow) tell(k onerun.HostKnowledge) {
	if k.Held != nil {
		h := holderOf(*k.Held)
		p.Held, p.HeldStale, p.HeldOwner = &h, k.HeldStale, null(k.HeldOwner)
	}
	if len(k.Dead) == 0 {
		return
	}
	p.Dead = map[string]deadRow{}
	for _, d := range k.Dead {
		p.Dead[d.Owner] = deadRow{Void: d.Void, Evidence: null(d.Evidence), Error: sqlledger.WordsOf(d)}
	}
}
