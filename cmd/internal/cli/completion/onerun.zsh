#compdef onerun
# Completes the command line of onerun in zsh, by asking onerun.

_onerun() {
  local line kind
  local -a answer values
  answer=("${(@f)$("${words[1]/#\~/$HOME}" completion zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  kind=$answer[1]
  case $kind in
    words)
      for line in "${(@)answer[2,-1]}"; do
        values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
      done
      _describe -V -t onerun onerun values
      ;;
    files | dirs)
      [[ $PREFIX == --*=* ]] && compset -P 1 '*='
      if [[ $kind == dirs ]]; then
        _files -/
      else
        _files
      fi
      ;;
    command\ *)
      shift "${kind#command }" words
      (( CURRENT -= ${kind#command } ))
      _normal
      ;;
  esac
}

# As a file in the function path it is called; when sourced, it is made known.
if [[ $funcstack[1] == _onerun ]]; then
  _onerun "$@"
else
  compdef _onerun onerun
fi
