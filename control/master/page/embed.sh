#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints assembly that holds the given files as texts, and the table that files.h declares. index.html is /page, another
# NAME is /page/NAME.
set -eu
printf '.section .rodata\n'
number=0
for file in "$@"; do
    name=$(basename "$file") number=$((number + 1))
    case $name in
    *.html) type="text/html" ;;
    *.css) type="text/css" ;;
    *.js) type="text/javascript" ;;
    *) echo "$name: of a type that has no name here" >&2 && exit 1 ;;
    esac
    url=/page/$name
    [ "$name" = index.html ] && url=/page
    # a change of the file must change the assembly, or it is not assembled again
    printf '/* %s */\n' "$(cksum <"$file")"
    printf 'url_%s: .asciz "%s"\ntype_%s: .asciz "%s; charset=utf-8"\n' $number "$url" $number $type
    printf 'text_%s: .incbin "%s"\n.byte 0\n' $number "$(realpath "$file")"
done
printf '.section .data.rel.ro,"aw"\n.global page_files\n.hidden page_files\n.balign 8\npage_files:\n'
number=0
for file in "$@"; do
    number=$((number + 1))
    printf '.8byte url_%s, type_%s, text_%s\n' $number $number $number
done
printf '.8byte 0, 0, 0\n.section .note.GNU-stack,"",%%progbits\n'
