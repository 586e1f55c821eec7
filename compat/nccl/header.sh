#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# header.sh FOLDER COMPILER...: nccl.h of FOLDER compiles without a word, alone, as C and as C++.
folder=$1
shift
tried=0
for compiler in "$@"; do
  command -v "$compiler" >/dev/null || continue
  for options in "-x c -std=c99" "-x c -std=c17" "-x c++ -std=c++11" "-x c++ -std=c++17" \
      "-x c++ -std=c++17 -DNCCL_WITHOUT_DEVICE_API"; do
    # shellcheck disable=SC2086
    printf '#include "nccl.h"\nncclConfig_t config = NCCL_CONFIG_INITIALIZER;\n%s\n' \
      'ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;' |
      "$compiler" $options -Wall -Wextra -Wpedantic -Werror -DNCCL_WITHOUT_CUDA_HEADERS \
        -I "$folder" -fsyntax-only - || exit 1
    tried=$((tried + 1))
  done
done
echo "$tried times"
[ "$tried" -gt 0 ]
