/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: its own kernels. The compiler has put them into a section of this program. The driver loads them from
 * there, without the runtime library, so that they can be loaded again while loading is what is measured. */
#include "limits.h"

#include <elf.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

const char *const kernel_names[KERNELS] = {"limits_spin", "limits_fill",    "limits_check",   "limits_move",
                                           "limits_bulk", "limits_flags",   "limits_packets", "limits_fence",
                                           "limits_meet", "limits_barrier", "limits_nothing"};

namespace
{

constexpr char SECTION[] = ".nv_fatbin"; /* CUDA's <fatbinary_section.h> */
constexpr uint32_t MAGIC = 0xba55ed50;

/* In front of each image of the section. */
struct Head {
    uint32_t magic;
    uint16_t version, head;
    uint64_t size; /* of what follows the head */
};

using File = std::unique_ptr<FILE, int (*)(FILE *)>;

template <class T> std::vector<T> read_at(FILE *file, uint64_t at, size_t count)
{
    std::vector<T> found(count);
    if (fseek(file, (long)at, SEEK_SET) || fread(found.data(), sizeof(T), count, file) != count)
        throw Failure("reading this program's own file: it is shorter than its header says");
    return found;
}

/* The linker adds an image without kernels: the longest is ours. */
std::vector<char> longest(const std::vector<char> &section)
{
    std::vector<char> found;
    Head head;
    for (size_t at = 0; at + sizeof(head) <= section.size(); at += head.head + head.size) {
        memcpy(&head, &section[at], sizeof(head));
        if (head.magic != MAGIC || head.head < sizeof(head) || head.size > section.size() - at - sizeof(head))
            break;
        if (head.head + head.size > found.size() && at + head.head + head.size <= section.size())
            found.assign(&section[at], &section[at] + head.head + head.size);
    }
    if (found.empty())
        throw Failure("this program's section .nv_fatbin has no image that is understood");
    return found;
}

std::vector<char> section_of(FILE *file)
{
    Elf64_Ehdr head = read_at<Elf64_Ehdr>(file, 0, 1)[0];
    std::vector<Elf64_Shdr> sections = read_at<Elf64_Shdr>(file, head.e_shoff, head.e_shnum);
    const Elf64_Shdr &strings = sections.at(head.e_shstrndx);
    std::vector<char> names = read_at<char>(file, strings.sh_offset, strings.sh_size);
    for (const Elf64_Shdr &section : sections)
        if (section.sh_name < names.size() && !strcmp(&names[section.sh_name], SECTION))
            return read_at<char>(file, section.sh_offset, section.sh_size);
    throw Failure("this program has no section .nv_fatbin: it was built without its kernels");
}

} // namespace

std::vector<char> load_image()
{
    File file(fopen("/proc/self/exe", "rb"), fclose);
    if (!file)
        throw Failure("/proc/self/exe cannot be read: " + std::string(strerror(errno)));
    return longest(section_of(file.get()));
}

/* All at once, before anything waits on the GPU: loading may have to wait for what runs. What is missing is said where
 * it is used. */
void load_kernels(Gpu &gpu)
{
    OK(cuModuleLoadData(&gpu.module, machine.image.data()));
    for (int i = 0; i < KERNELS; i++) {
        CUresult result = cuModuleGetFunction(&gpu.functions[i], gpu.module, kernel_names[i]);
        if (result == CUDA_ERROR_NOT_FOUND) {
            gpu.functions[i] = nullptr;
            continue;
        }
        must(result, kernel_names[i], __FILE__, __LINE__);
        OK(cuFuncLoad(gpu.functions[i]));
    }
}

CUfunction function_of(const Gpu &gpu, Kernel kernel)
{
    if (!gpu.functions[kernel])
        throw Failure(std::string("there is no kernel ") + kernel_names[kernel]);
    return gpu.functions[kernel];
}
