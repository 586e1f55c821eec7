# SPDX-License-Identifier: Apache-2.0
# Completion of tutti for bash. Commands, options and parameters are asked of the program itself, so they are never stale.
_tutti()
{
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} word=${COMP_WORDS[COMP_CWORD]} words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        words=$("$program" help 2>/dev/null | sed -n 's/^  \([a-z]\+\) .*/\1/p')
    elif [[ $word == -* ]]; then
        words=$("$program" help "$command" 2>/dev/null | sed -n 's/^ \{2,6\}\(-[^ ].*\)/\1/p' | sed 's/   *.*//' |
            grep -o -E -- '(^|[ ,])--?[A-Za-z0-9][A-Za-z0-9_-]*' | tr -d ' ,')
    elif [ "$command" = help ]; then
        words=$("$program" help 2>/dev/null | sed -n 's/^  \([a-z]\+\) .*/\1/p')
    elif [ "$command" = env ]; then
        words=$("$program" env --all 2>/dev/null | sed -n 's/^\(TUTTI_[A-Z0-9_]*\)=.*/\1/p')
    elif [ "$command" = doctor ]; then
        words=$("$program" help doctor 2>/dev/null | sed -n '/^Checks/,$s/^  \([a-z]\+\) .*/\1/p')
    elif [ "$command" = perf ]; then
        words=$("$program" help perf 2>/dev/null | sed -n '/^Collectives:/,/,/{s/^Collectives://;s/,.*//;p}')
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _tutti tutti
