// Data sets whose file is cut short while they are open: the loader and packing end with an error that names the file.
// No sample read from it is used, and none is counted as bad.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/map_damage.h"
#include "stoker/formats/open.h"
#include "stoker/formats/synth/synth_digits.h"
#include "stoker/pack/pack.h"
#include "stoker/pipeline/loader.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

void put_number(std::ofstream& out, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        out.put(static_cast<char>(value >> shift & 255));
    }
}

// 400 samples of 28 x 28 pixels.
void make_idx(const fs::path& folder) {
    fs::create_directory(folder);
    std::ofstream images(folder / "train-images-idx3-ubyte", std::ios::binary);
    std::ofstream labels(folder / "train-labels-idx1-ubyte", std::ios::binary);
    for (const std::uint32_t value : {0x803u, 400u, 28u, 28u}) {
        put_number(images, value);
    }
    images << std::string(400 * 784, 'p');
    put_number(labels, 0x801);
    put_number(labels, 400);
    labels << std::string(400, '\1');
}

void make_npy(const fs::path& path) {
    std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (400, 28, 28), }";
    header += std::string(128 - 10 - header.size() - 1, ' ') + "\n";
    std::ofstream out(path, std::ios::binary);
    out << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size()) << '\0' << header
        << std::string(400 * 784, 'p');
}

void make(const fs::path& path) {
    if (path.extension() == ".npy") {
        make_npy(path);
    } else if (path.filename() == "idx") {
        make_idx(path);
    } else {
        pack(*make_synth_digits(Split::train, 400, 1), path, {.workers = 1});
    }
}

// Cuts the largest file of the data set to a third; returns its name.
std::string cut(const fs::path& data) {
    fs::path largest = data;
    if (fs::is_directory(data)) {
        const auto files = list_folder(data);
        largest = *std::ranges::max_element(files, {}, [](const fs::path& file) { return fs::file_size(file); });
    }
    fs::resize_file(largest, fs::file_size(largest) / 3);
    return largest.string();
}

// The message of the IoError that `call` throws.
template <typename Call>
std::string io_error_of(const Call& call) {
    try {
        call();
        return "no error";
    } catch (const IoError& error) {
        return error.what();
    } catch (const std::exception& error) {
        return std::string("another error: ") + error.what();
    }
}

class CutFile : public ::testing::TestWithParam<const char*> {};

TEST_P(CutFile, EndsTheLoader) {
    const testing::TempDir folder;
    make(folder / GetParam());
    const std::shared_ptr<const Dataset> dataset = open_dataset((folder / GetParam()).string(), Split::train);
    std::int64_t bad = 0;
    const std::string message = io_error_of([&] {
        Loader loader(dataset, Transform(), {.batch_size = 20, .workers = 2, .bad_samples = 400});
        cut(folder / GetParam());
        for (int batch = 0; batch < 21; ++batch) {
            if (const auto filled = loader.next()) {
                bad += std::ssize(filled->bad_samples());
            }
        }
    });
    EXPECT_THAT(message,
                AllOf(HasSubstr((folder / GetParam()).string()), HasSubstr("another process has cut it short")));
    EXPECT_EQ(bad, 0);
}

TEST_P(CutFile, EndsAPackingThatSkipsBadSamples) {
    const testing::TempDir folder;
    make(folder / GetParam());
    const auto dataset = open_dataset((folder / GetParam()).string(), Split::train);
    cut(folder / GetParam());
    const std::string message =
        io_error_of([&] { pack(*dataset, folder / "packed.stk", {.workers = 2, .skip_bad = true}); });
    EXPECT_THAT(message, HasSubstr("another process has cut it short"));
    EXPECT_THROW(open_dataset((folder / "packed.stk").string(), Split::train), Error) << "it is not finished";
}

TEST_P(CutFile, ASoundOneBesideItIsReadAfterwards) {
    const testing::TempDir folder;
    make(folder / GetParam());
    {
        const std::shared_ptr<const Dataset> dataset = open_dataset((folder / GetParam()).string(), Split::train);
        cut(folder / GetParam());
        io_error_of([&] {
            Loader loader(dataset, Transform(), {.batch_size = 400, .workers = 1, .bad_samples = 400});
            loader.next();
        });
    }
    EXPECT_NO_THROW(check_maps());
    fs::create_directory(folder / "sound");
    make(folder / "sound" / GetParam());
    Loader loader(open_dataset((folder / "sound" / GetParam()).string(), Split::train), Transform(),
                  {.batch_size = 400, .workers = 1});
    EXPECT_EQ(loader.next()->size(), 400);
}

INSTANTIATE_TEST_SUITE_P(Formats, CutFile,
                         ::testing::Values("x.stk", "x.tar", "x.lmdb", "x.h5", "x.npz", "x.npy", "idx"),
                         [](const auto& name) {
                             std::string text = name.param;
                             std::erase(text, '.');
                             return text;
                         });

}  // namespace
}  // namespace stoker
