# fish.fish SCRIPT LINE: what fish completes the end of LINE to.
source $argv[1]
complete -C $argv[2] | string replace -r '\t.*' ''
