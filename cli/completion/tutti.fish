# SPDX-License-Identifier: Apache-2.0
# Completion of tutti for fish. The program itself says what may follow (tutti --complete), out of its tables of options.
function __tutti_complete
    set -l words (commandline -opc)
    set -l rows ($words[1] --complete $words[2..] (commandline -ct) 2>/dev/null)
    if set -q rows[1]
        printf '%s\n' $rows
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c tutti -f -a '(__tutti_complete)'
