# zsh.zsh DIR LINE: what a zsh on a terminal completes the end of LINE to. DIR holds the
# completion function, _onerun, and is the only thing that the zsh knows of it.
zmodload zsh/zpty
export ZDOTDIR=$1 DIR=$1
mkfifo $DIR/ready $DIR/done
: >$DIR/found # while it completes, zsh doesn't make the files that it appends to
cat >$DIR/.zshrc <<'RC'
fpath=($DIR $fpath)
autoload -U compinit
compinit -u -D
PROMPT=
bindkey '^I' complete-word
zle-line-init() { print >$DIR/ready }
zle -N zle-line-init
# Every match is written down with what stands before and after it.
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a found
  builtin compadd -A found "$@"
  (( $#found )) && print -rl -- $IPREFIX${^found} >>$DIR/found
  builtin compadd "$@"
}
comppostfuncs=(written)
written() { print >$DIR/done }
RC
zpty shell 'exec zsh -i'
read -t 60 line <$DIR/ready || exit 1
zpty -w -n shell "$2"$'\t'
read -t 60 line <$DIR/done || exit 1
zpty -d shell
cat $DIR/found
