package cli

import (
	"errors"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/jobapi"
)

// insideJob is the onerun that runs the job of which this command is part.
func insideJob() (*jobapi.Client, error) {
	path := os.Getenv("ONERUN_SOCKET")
	if path == "" && os.Getenv("ONERUN_RUN_ID") != "" {
		return nil, &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "ONERUN_SOCKET", Err: errors.New("it is not set"),
			Do: "this job's onerun could make no socket, and has said why on its standard error; or something between has cleared the variable",
		}
	}
	if path == "" {
		return nil, &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "ONERUN_SOCKET", Err: errors.New("it is not set"),
			Do: "this command is for inside of a job that onerun run has started",
		}
	}
	return jobapi.Dial(path), nil
}
