package onerun

// WithExit replaces the end of this process, for the tests of WithExitOnLoss.
func WithExit(exit func(code int)) Option { return func(r *Runner) { r.exit = exit } }
