#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the stand-in with the real header, where that is installed: its sources must compile against it, and the
# numbers, sizes and offsets of cuda_abi.h and cuda_numbers.h must be the same. Usage: abi.sh FOLDER_OF_SOURCES;
# CUDA_INCLUDE names the header's folder.
set -eu
folder=$1
include=${CUDA_INCLUDE:-/usr/local/cuda/include}
[ -r "$include/cuda.h" ] || { echo "no $include/cuda.h: skipped"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler="${CC:-cc} -std=gnu17 -D_GNU_SOURCE -Werror -Wincompatible-pointer-types
    -I$folder -I$folder/.. -I$folder/../../src -I$folder/../../include -isystem $include"

# old.c defines names that the header has given to newer calls
for source in "$folder"/*.c; do
    case $source in
    *_test.c | */old.c) ;;
    *) $compiler -DEMULATED_CUDA_REAL_HEADER -fsyntax-only "$source" ;;
    esac
done

# every CU_ and CUDA_ name of our enumerations, every struct with its members
{
    echo '#include "cuda_abi.h"'
    echo '#include <stddef.h>'
    echo '#include <stdio.h>'
    echo 'int main(void) {'
    cat "$folder/cuda_numbers.h" "$folder/cuda_abi.h" | grep -oE '\b(CU|CUDA)_[A-Z0-9_]+ =' | sed 's/ =//' | sort -u |
        awk '{ printf "printf(\"%s %%lld\\n\", (long long)%s);\n", $1, $1 }'
    awk '/^typedef (struct|union) .*\{/ { on = 1; depth = 0; n = 0 }
         on { line = $0
              if (line ~ /\{/ ) depth++
              if (depth == 1 && line ~ /;$/ && line !~ /^}/ && line !~ /[{}]/) {
                  sub(/;$/, "", line); gsub(/\[[^]]*\]/, "", line)
                  count = split(line, part, ",")
                  for (i = 1; i <= count; i++) { words = split(part[i], word, /[ *]+/); name[n++] = word[words] } }
              if (line ~ /^} /) { type = line; gsub(/[} ;]/, "", type)
                  printf "printf(\"%s %%zu\\n\", sizeof(%s));\n", type, type
                  for (i = 0; i < n; i++)
                      printf "printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));\n", type, name[i], type, name[i]
                  on = 0 } 
              if (line ~ /\}/) depth-- }' "$folder/cuda_abi.h" | grep -vE 'CUuuid\.|Handle\.|Attribute\.pad|Value\.'
    echo 'return 0; }'
} > "$work/abi.c"
$compiler "$work/abi.c" -o "$work/ours"
$compiler -DEMULATED_CUDA_REAL_HEADER "$work/abi.c" -o "$work/theirs"
"$work/ours" > "$work/ours.txt"
"$work/theirs" > "$work/theirs.txt"
diff "$work/ours.txt" "$work/theirs.txt"
echo "$(wc -l < "$work/ours.txt") facts agree"
