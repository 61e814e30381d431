# Completes the command line of onerun in bash, by asking onerun.

_onerun() {
  local i n word value kind prefix words=() at=() answer=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    n=$((${#words[@]} - 1))
    # Bash breaks words at = : and @, which are put together again.
    if ((n >= 0)) && [[ $word == [=:@]* || ${words[n]} == *[=:@] ]] &&
      [[ -z $COMP_LINE || $COMP_LINE == *"${words[n]}$word"* ]]; then
      words[n]+=$word
    else
      words+=("$word") at+=("$i")
    fi
  done
  n=$((${#words[@]} - 1))
  word=${words[n]}
  while IFS= read -r i; do
    answer+=("${i%%$'\t'*}")
  done < <("${words[0]/#\~/$HOME}" completion bash -- "${words[@]//[\"\'\\]/}" 2>/dev/null)
  COMPREPLY=()
  kind=${answer[0]-}
  case $kind in
    words)
      COMPREPLY=("${answer[@]:1}")
      prefix=${COMP_WORDS[COMP_CWORD]}
      [[ $prefix == *[!=:@]* ]] || prefix=
      prefix=${word%"$prefix"}
      COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
      ;;
    files | dirs)
      value=$word
      [[ $value == --*=* ]] && value=${value#*=}
      compopt -o filenames 2>/dev/null
      i=-f
      [[ $kind == dirs ]] && i=-d
      while IFS= read -r i; do
        COMPREPLY+=("$i")
      done < <(compgen "$i" -- "$value")
      ;;
    command\ *)
      i=${kind#command }
      if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "${at[i]}"
      elif declare -F _command_offset >/dev/null; then
        _command_offset "${at[i]}"
      else
        compopt -o filenames 2>/dev/null
        kind=-f
        ((i == n)) && kind=-c
        while IFS= read -r i; do
          COMPREPLY+=("$i")
        done < <(compgen "$kind" -- "$word" | sort -u)
      fi
      ;;
  esac
}

complete -F _onerun onerun
