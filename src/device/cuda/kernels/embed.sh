#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints assembly that holds the given files and the table that images.h declares.
set -eu
printf '.section .rodata\n.global kernel_image_count\n.hidden kernel_image_count\n.balign 8\n'
printf 'kernel_image_count: .8byte %s\n' $#
for file in "$@"; do
    name=$(basename "$file" .fatbin)
    # a change of the file must change the assembly, or it is not assembled again
    printf '/* %s */\n' "$(cksum <"$file")"
    printf '.balign 64\nimage_%s: .incbin "%s"\nimage_%s_end:\n' "$name" "$(realpath "$file")" "$name"
done
printf '.section .data.rel.ro,"aw"\n.global kernel_images\n.hidden kernel_images\n.balign 8\nkernel_images:\n'
for file in "$@"; do
    name=$(basename "$file" .fatbin)
    printf '.8byte image_%s, image_%s_end - image_%s\n' "$name" "$name" "$name"
done
printf '.8byte 0, 0\n.section .note.GNU-stack,"",%%progbits\n'
