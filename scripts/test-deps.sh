#!/bin/sh
# Installs, with apt, what the tests need and this machine lacks. It does nothing when nothing is missing.
set -eu

# What must be there (a command, or a file by its full path, a pattern for the shell), and the Debian package that has it.
needs='
flock                 util-linux
unshare               util-linux
nsenter               util-linux
ps                    procps
script                bsdutils
sqlite3               sqlite3
curl                  curl
zsh                   zsh
fish                  fish
mandoc                mandoc
script                bsdutils
gcc                   gcc
/usr/bin/spin         spin
/usr/include/stdlib.h libc6-dev
sudo                  sudo
/var/lib/extrausers   libnss-extrausers
/usr/lib/postgresql/*/bin/initdb postgresql
/usr/sbin/pgbouncer   pgbouncer
redis-server          redis-server
redis-sentinel        redis-sentinel
/usr/sbin/mariadbd    mariadb-server
/usr/lib/*/faketime/libfaketime.so.1 libfaketime
etcd                  etcd-server
/usr/share/java/zookeeper.jar zookeeper
/usr/share/java/slf4j-simple.jar libslf4j-java
java                  default-jre-headless
'

there() {
  case $1 in
    /*)
      # shellcheck disable=SC2086 # a pattern: the first file that it matches
      set -- $1
      test -e "$1"
      ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# missing prints the packages that lack, each once, on one line.
missing() {
  echo "$needs" | while read -r need package; do
    test -z "$need" || there "$need" || echo "$package"
  done | sort -u | paste -s -d ' ' -
}

say() {
  echo "test-deps: $*" >&2
}

packages=$(missing)
if [ -z "$packages" ]; then
  echo "test-deps: all there"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  say "the tests need what these Debian packages have: $packages"
  say "this machine has no apt-get; install them its own way and start again"
  exit 1
fi
if [ "$(id -u)" -eq 0 ]; then
  sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  sudo='sudo -n'
else
  say "the tests need packages that only root can install. Type this and start again:"
  echo "sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends $packages'" >&2
  exit 1
fi

# apt tells what it does in a log, which is shown only when it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@" </dev/null >"$log" 2>&1 || {
    say "apt-get $* failed:"
    cat "$log" >&2
    return 1
  }
}

# The package of a server starts it as a daemon of this machine, and PostgreSQL's makes a cluster to start. The tests
# start servers of their own, so neither is to happen; what is changed for that is put back.
policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.conf
undo=
quietly() {
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
    $sudo chmod 755 $policy
    undo="$undo; $sudo rm -f $policy"
  fi
  case " $packages " in *' postgresql '*)
    # The file belongs to a package that the server's needs, so that one comes first.
    apt install -y --no-install-recommends postgresql-common
    if ! grep -q '^create_main_cluster *= *false' $clusters; then
      $sudo sed -i.onerun -e '/^create_main_cluster/d' -e '1i create_main_cluster = false' $clusters
      undo="$undo; $sudo mv $clusters.onerun $clusters"
    fi
    ;;
  esac
}
trap 'rm -f "$log"; eval "${undo#;}"' EXIT

say "installing $packages"
# Lists that are a little old often still do.
apt update || say "going on with the package lists at hand"
quietly
# shellcheck disable=SC2086 # one word for each package
apt install -y --no-install-recommends $packages

packages=$(missing)
if [ -n "$packages" ]; then
  say "installed, but something is still missing of: $packages"
  exit 1
fi
say "done"
