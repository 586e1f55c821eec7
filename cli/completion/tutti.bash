# SPDX-License-Identifier: Apache-2.0
# Completion of tutti for bash. The program itself says what may follow (tutti --complete), out of its tables of options.
_tutti()
{
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null | cut -f 1)
}
complete -o default -F _tutti tutti
