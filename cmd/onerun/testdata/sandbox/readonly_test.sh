# A file system that is read-only is 73: not being able to ask is not the answer "no".
tmpfs store 4m
export ONERUN_STORE="sqlite:$DIR/store"
exits 0 onerun run settle --date 2026-09-15 -- true
mount -o remount,bind,ro store
fails 73 onerun run settle --date 2026-09-15 -- touch ran
says 'read-only'
fails 73 onerun run settle --date 2026-09-16 -E 0 --blocked-code 0 -- touch ran
fails 73 onerun run other -- touch ran
fails 73 onerun run settle --lock-mode create -- touch ran
fails 73 onerun lock report -- touch ran
fails 73 onerun rerun settle:2026-09-15 --reason why
mount -o remount,bind,rw store
test ! -e ran || die "it ran"
exits 0 onerun run settle --date 2026-09-16 -- echo settled
prints settled
exits 0 onerun show settle:2026-09-15 --json
prints '"skipped": \[\]'
