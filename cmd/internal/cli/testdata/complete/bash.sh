# bash.sh SCRIPT WORD...: what bash completes the last word to, by the function in SCRIPT.
# A word that ends in = or : stands as bash breaks it: before and after that.
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')
printf '%s\n' "${COMPREPLY[@]}"
