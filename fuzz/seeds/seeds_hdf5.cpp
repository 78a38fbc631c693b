// HDF5 files of both kinds of object headers, with groups, compact, chunked and variable-length datasets, in the layout
// of fuzz_hdf5.cpp. The library writes them.
#include <hdf5.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "fuzz/formats/sources.h"
#include "fuzz/seeds/seeds.h"

namespace stoker::fuzz {
namespace {

template <typename Status>
Status must(Status status) {
    if (status < 0) {
        throw std::runtime_error("the HDF5 library refused");
    }
    return status;
}

// A dataset of uint8 (8, 6, 4), and its header's address.
std::uint64_t add_images(hid_t file, const char* name, H5D_layout_t layout) {
    constexpr std::array<hsize_t, 3> kShape = {8, 6, 4};
    constexpr std::array<hsize_t, 3> kChunk = {2, 6, 4};
    const hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
    must(H5Pset_layout(creation, layout));
    if (layout == H5D_CHUNKED) {
        must(H5Pset_chunk(creation, kChunk.size(), kChunk.data()));
        must(H5Pset_deflate(creation, 6));
    }
    const hid_t space = must(H5Screate_simple(kShape.size(), kShape.data(), nullptr));
    const hid_t links = must(H5Pcreate(H5P_LINK_CREATE));
    must(H5Pset_create_intermediate_group(links, 1));
    const hid_t dataset = must(H5Dcreate2(file, name, H5T_NATIVE_UINT8, space, links, creation, H5P_DEFAULT));
    const std::array<std::uint8_t, 192> pixels = {1, 2, 3};
    must(H5Dwrite(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data()));
    const hid_t scalar = must(H5Screate(H5S_SCALAR));
    const hid_t attribute = must(H5Acreate2(dataset, "classes", H5T_NATIVE_INT, scalar, H5P_DEFAULT, H5P_DEFAULT));
    const int value = 7;
    must(H5Awrite(attribute, H5T_NATIVE_INT, &value));
    H5O_info_t info{};
    must(H5Oget_info(dataset, &info));
    must(H5Aclose(attribute));
    must(H5Sclose(scalar));
    must(H5Dclose(dataset));
    must(H5Sclose(space));
    must(H5Pclose(links));
    must(H5Pclose(creation));
    return info.addr;
}

void add_sequences(hid_t file) {
    constexpr hsize_t kCount = 2;
    std::array<std::uint8_t, 5> bytes = {1, 2, 3, 4, 5};
    const std::array<hvl_t, kCount> values = {hvl_t{.len = 5, .p = bytes.data()}, hvl_t{.len = 2, .p = bytes.data()}};
    const hid_t type = must(H5Tvlen_create(H5T_NATIVE_UINT8));
    const hid_t space = must(H5Screate_simple(1, &kCount, nullptr));
    const hid_t dataset = must(H5Dcreate2(file, "caption", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    must(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
    must(H5Dclose(dataset));
    must(H5Sclose(space));
    must(H5Tclose(type));
}

std::string read(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

Input with_head(std::uint64_t address, const std::string& content) {
    Input input = {std::byte(address & 0xff), std::byte(address >> 8 & 0xff), std::byte{0}, std::byte{0}};
    const auto* begin = reinterpret_cast<const std::byte*>(content.data());
    input.insert(input.end(), begin, begin + content.size());
    return input;
}

}  // namespace

std::vector<Input> hdf5_files() {
    const Scratch scratch;
    const std::filesystem::path path = scratch.path() / "a.h5";
    std::vector<Input> inputs;
    for (const auto version : {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18}) {
        // Small nodes and blocks, so that the corpus keeps the files.
        const hid_t creation = must(H5Pcreate(H5P_FILE_CREATE));
        must(H5Pset_istore_k(creation, 2));
        must(H5Pset_sym_k(creation, 1, 1));
        const hid_t access = must(H5Pcreate(H5P_FILE_ACCESS));
        must(H5Pset_libver_bounds(access, version, H5F_LIBVER_V18));
        must(H5Pset_meta_block_size(access, 0));
        const hid_t file = must(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access));
        H5O_info_t root{};
        must(H5Oget_info(file, &root));
        const std::array<std::uint64_t, 3> headers = {root.addr, add_images(file, "a/b/compact", H5D_COMPACT),
                                                      add_images(file, "images", H5D_CHUNKED)};
        must(H5Fflush(file, H5F_SCOPE_GLOBAL));
        const std::string images = read(path);
        for (const std::uint64_t header : headers) {
            inputs.push_back(with_head(header, images));
        }
        add_sequences(file);
        must(H5Fclose(file));
        must(H5Pclose(access));
        must(H5Pclose(creation));
        const std::string all = read(path);
        inputs.push_back(with_head(all.find("GCOL"), all));  // the heap
    }
    return inputs;
}

}  // namespace stoker::fuzz
