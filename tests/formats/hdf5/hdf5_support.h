// Writes HDF5 files for tests with the C library, in many forms.
#pragma once

#define H5_USE_110_API
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "stoker/base/rng.h"
#include "stoker/base/tensor_view.h"
#include "stoker/formats/hdf5/hdf5.h"
#include "stoker/formats/hdf5/hdf5_records.h"

namespace stoker::testing {

// As Stoker does: after a damaged file the library's clean-up at exit loops and prints a message.
inline const herr_t kNeverAtExit = H5dont_atexit();

template <typename Status>
Status must(Status status) {
    if (status < 0) {
        throw std::runtime_error("the HDF5 library refused");
    }
    return status;
}

enum class Storage : std::uint8_t { contiguous, compact, chunked };

// How a dataset is stored.
struct Form {
    Storage storage = Storage::contiguous;
    Shape chunk = {};
    std::string filters = {};  // in order: s shuffle, d deflate, f fletcher32
    bool growable = false;     // an unlimited first dimension
    bool plain_edges = false;  // filters are not applied to chunks over the edge
    int fill = -1;             // the fill value, if there is one
};

class H5Writer {
  public:
    struct Options {
        hsize_t user_block = 0;
        bool newest = false;      // the format of HDF5 1.10
        bool version_18 = false;  // the format of 1.8: object headers of version 2, B-trees of version 1
        int address_bytes = 8;
    };

    explicit H5Writer(const std::filesystem::path& path) : H5Writer(path, Options{}) {}
    H5Writer(const std::filesystem::path& path, const Options& options) {
        const hid_t creation = must(H5Pcreate(H5P_FILE_CREATE));
        must(H5Pset_userblock(creation, options.user_block));
        const auto bytes = static_cast<std::size_t>(options.address_bytes);
        must(H5Pset_sizes(creation, bytes, bytes));
        const hid_t access = must(H5Pcreate(H5P_FILE_ACCESS));
        if (options.newest || options.version_18) {
            const auto version = options.newest ? H5F_LIBVER_V110 : H5F_LIBVER_V18;
            must(H5Pset_libver_bounds(access, version, version));
        }
        file_ = must(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access));
        H5Pclose(creation);
        H5Pclose(access);
    }
    H5Writer(const H5Writer&) = delete;
    H5Writer& operator=(const H5Writer&) = delete;
    ~H5Writer() { H5Fclose(file_); }

    hid_t file() const { return file_; }

    // Adds a dataset and the groups in its name. `write` gets its id and fills it.
    void add(const std::string& name, hid_t type, const Shape& shape, const Form& form,
             const std::function<void(hid_t)>& write) {
        std::vector<hsize_t> sides(shape.begin(), shape.end());
        std::vector<hsize_t> most = sides;
        if (form.growable) {
            most[0] = H5S_UNLIMITED;
        }
        const hid_t space = must(H5Screate_simple(static_cast<int>(sides.size()), sides.data(), most.data()));
        const hid_t creation = creation_of(form);
        const hid_t links = must(H5Pcreate(H5P_LINK_CREATE));
        must(H5Pset_create_intermediate_group(links, 1));
        const hid_t dataset = must(H5Dcreate2(file_, name.c_str(), type, space, links, creation, H5P_DEFAULT));
        write(dataset);
        H5Dclose(dataset);
        H5Pclose(links);
        H5Pclose(creation);
        H5Sclose(space);
    }

    void add_bytes(const std::string& name, const Shape& shape, const std::vector<std::uint8_t>& bytes,
                   const Form& form = {}) {
        add(name, H5T_STD_U8LE, shape, form, [&](hid_t dataset) {
            must(H5Dwrite(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
        });
    }

    void add_integers(const std::string& name, const std::vector<std::int64_t>& numbers, hid_t type = H5T_STD_I64LE,
                      const Form& form = {}, Shape shape = {}) {
        if (shape.empty()) {
            shape = {static_cast<std::int64_t>(numbers.size())};
        }
        add(name, type, shape, form, [&](hid_t dataset) {
            must(H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()));
        });
    }

    // Variable-length uint8.
    void add_sequences(const std::string& name, const std::vector<std::vector<std::uint8_t>>& rows,
                       const Form& form = {}) {
        const hid_t type = must(H5Tvlen_create(H5T_STD_U8LE));
        std::vector<hvl_t> sequences;
        for (const auto& row : rows) {
            sequences.push_back({row.size(), const_cast<std::uint8_t*>(row.data())});
        }
        add(name, type, {static_cast<std::int64_t>(rows.size())}, form,
            [&](hid_t dataset) { must(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, sequences.data())); });
        H5Tclose(type);
    }

    void add_texts(const std::string& name, const std::vector<std::string>& texts, std::size_t fixed = 0) {
        const hid_t type = text_type(fixed);
        add(name, type, {static_cast<std::int64_t>(texts.size())}, {}, [&](hid_t dataset) {
            with_texts(texts, fixed,
                       [&](const void* data) { must(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data)); });
        });
        H5Tclose(type);
    }

    // Adds the attribute `classes` to a dataset or to the file ("/"). `fixed`: length of the strings, 0 for variable.
    void add_classes(const std::string& object, const std::vector<std::string>& texts, std::size_t fixed = 0) {
        const hid_t at = must(H5Oopen(file_, object.c_str(), H5P_DEFAULT));
        const hid_t type = text_type(fixed);
        const hsize_t count = texts.size();
        const hid_t space = must(H5Screate_simple(1, &count, nullptr));
        const hid_t attribute = must(H5Acreate2(at, "classes", type, space, H5P_DEFAULT, H5P_DEFAULT));
        with_texts(texts, fixed, [&](const void* data) { must(H5Awrite(attribute, type, data)); });
        H5Aclose(attribute);
        H5Sclose(space);
        H5Tclose(type);
        H5Oclose(at);
    }

  private:
    static hid_t text_type(std::size_t fixed) {
        const hid_t type = must(H5Tcopy(H5T_C_S1));
        must(H5Tset_size(type, fixed == 0 ? H5T_VARIABLE : fixed));
        if (fixed != 0) {
            must(H5Tset_strpad(type, H5T_STR_NULLPAD));
        }
        return type;
    }

    static void with_texts(const std::vector<std::string>& texts, std::size_t fixed,
                           const std::function<void(const void*)>& use) {
        std::vector<const char*> pointers;
        std::string all;
        for (const std::string& text : texts) {
            pointers.push_back(text.c_str());
            all += text + std::string(fixed == 0 ? 0 : fixed - text.size(), '\0');
        }
        use(fixed == 0 ? static_cast<const void*>(pointers.data()) : all.data());
    }

    static hid_t creation_of(const Form& form) {
        const hid_t creation = must(H5Pcreate(H5P_DATASET_CREATE));
        if (form.storage == Storage::compact) {
            must(H5Pset_layout(creation, H5D_COMPACT));
        }
        if (form.storage == Storage::chunked) {
            const std::vector<hsize_t> chunk(form.chunk.begin(), form.chunk.end());
            must(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()));
        }
        if (form.plain_edges) {
            must(H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS));
        }
        for (const char filter : form.filters) {
            must(filter == 's'   ? H5Pset_shuffle(creation)
                 : filter == 'd' ? H5Pset_deflate(creation, 1)
                                 : H5Pset_fletcher32(creation));
        }
        if (form.fill >= 0) {
            const auto fill = static_cast<std::uint8_t>(form.fill);
            must(H5Pset_fill_value(creation, H5T_NATIVE_UINT8, &fill));
        }
        return creation;
    }

    hid_t file_ = H5I_INVALID_HID;
};

// ---- reading back ----

using Bytes = std::vector<std::uint8_t>;

inline Bytes noise(std::size_t count, std::uint64_t seed, std::uint32_t levels = 256) {
    Rng rng({.seed = seed});
    Bytes bytes(count);
    for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(rng.below(levels));
    }
    return bytes;
}

inline std::size_t count_of(const Shape& shape) {
    return static_cast<std::size_t>(element_count(shape));
}

inline Bytes bytes_of(const Sample& sample) {
    Bytes bytes(sample.bytes.size());
    std::ranges::transform(sample.bytes, bytes.begin(), [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
    return bytes;
}

inline Bytes read(const Dataset& dataset, std::int64_t index) {
    Sample sample;
    dataset.read(index, sample);
    return bytes_of(sample);
}

inline Bytes part(const Bytes& all, std::int64_t index, std::size_t size) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// Expects `pixels` from our reader and from the library.
inline void expect_pixels(const std::filesystem::path& path, const Shape& shape, const Bytes& pixels) {
    const std::size_t size = count_of(shape) / static_cast<std::size_t>(shape[0]);
    for (const Hdf5Access access : {Hdf5Access::fast, Hdf5Access::library}) {
        const Hdf5Dataset dataset(path.string(), Split::train, {}, access);
        ASSERT_EQ(dataset.size(), shape[0]);
        for (std::int64_t i = 0; i < shape[0]; ++i) {
            ASSERT_EQ(read(dataset, i), part(pixels, i, size)) << "sample " << i << ", access " << int(access);
        }
    }
}

}  // namespace stoker::testing
