# Completes the command line of onerun in fish, by asking onerun.

function __onerun_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct | string unescape)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -l answer ($program completion fish -- $words "$word" 2>/dev/null)
    set -l value (string replace -r '^--[^=]*=' '' -- "$word")
    set -l prefix (string sub -l (math (string length -- "$word") - (string length -- "$value")) -- "$word")
    switch "$answer[1]"
        case words
            set -e answer[1]
            string join \n -- $answer
        case files
            for path in (__fish_complete_path "$value")
                echo "$prefix$path"
            end
        case dirs
            for path in (__fish_complete_directories "$value")
                echo "$prefix$path"
            end
        case 'command *'
            set -l skip (string replace 'command ' '' -- $answer[1])
            set -e words[1..$skip]
            complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
    end
end

complete -c onerun -f -k -a '(__onerun_complete)'
