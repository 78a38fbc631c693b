// Writes the fuzzer's first inputs with our own encoders: `seeds DIR` writes DIR/<target>/<number>. They are small,
// because most changes to a large file would hit pixels.
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "codecs/writers.h"
#include "fuzz/codecs/decode.h"
#include "fuzz/seeds/seeds.h"

namespace stoker::fuzz {
namespace {

using namespace stoker::testing;

std::vector<Bytes> jpegs() {
    const Image image = picture(19, 34);
    return {encode_jpeg(image.view()), encode_jpeg(image.view(), {.quality = 40, .chroma_420 = false}),
            encode_jpeg(image.view(), {.progressive = true}), encode_jpeg(picture(8, 8, 1).view()),
            jpeg_with_exif(encode_jpeg(picture(9, 17).view()), exif_block(6, true))};
}

std::vector<Bytes> pngs() {
    return {encode_png(picture(7, 5).view()), encode_png(picture(9, 8, 1).view()),
            png_with_exif(encode_png(picture(4, 6).view()), exif_block(8, false), true)};
}

std::vector<Bytes> webps() {
    const Image image = picture(19, 34);
    return {encode_webp(image.view(), false),
            encode_webp(image.view(), true),
            encode_webp(picture(12, 9, 4).view(), false),
            encode_webp(picture(12, 9, 4).view(), true),
            webp_with_exif(encode_webp(picture(9, 17).view(), false), 9, 17, exif_block(5, true)),
            animated_webp(encode_webp(picture(8, 8).view(), true), 8, 8)};
}

std::vector<Bytes> bmps() {
    std::vector<Bytes> bmps;
    for (const BmpKind& kind : {BmpKind{.bits = 1},
                                {.bits = 4, .colors = 7},
                                {.bits = 8},
                                {.bits = 8, .header = 12},
                                {.bits = 24, .top_down = true},
                                {.bits = 8, .header = 64},
                                {.bits = 16},
                                {.bits = 16, .masked = true},
                                {.bits = 32},
                                {.bits = 32, .masked = true},
                                {.bits = 32, .header = 108, .masked = true}}) {
        bmps.push_back(random_bmp(kind, 6, 9).bytes);
    }
    for (const int bits : {4, 8}) {
        bmps.push_back(bmp_of_runs(bits, 3, 5, bmp_runs(bits)));
    }
    return bmps;
}

struct TiffKind {
    std::uint32_t bits = 8;
    std::uint32_t bands = 1;
    std::uint32_t format = 1;       // 1: unsigned, 2: signed, 3: float
    std::uint32_t photometric = 1;  // 0: white is 0, 1: black is 0, 2: RGB
    std::uint32_t orientation = 1;
    bool planes = false;
    bool tiled = false;
};

// Uncompressed, little-endian, 16 x 16, after the byte that chooses the options. Strips and planes are one after the
// other.
Bytes tiff(const TiffKind& kind) {
    constexpr std::uint32_t kSide = 16;
    Bytes bytes;
    const auto put = [&](std::uint32_t value, int count) {
        for (int i = 0; i < count; ++i) {
            bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
        }
    };
    put(0, 1);
    put(0x002A4949, 4);
    const std::uint32_t plane = kSide * kSide * kind.bits / 8 * (kind.planes ? 1 : kind.bands);
    const std::uint32_t planes = kind.planes ? kind.bands : 1;
    constexpr std::uint32_t kPixels = 8;
    const std::uint32_t lists = kPixels + plane * planes;  // the offsets of planes, then their sizes, then the bits
    put(lists + 8 * planes + 2 * kind.bands, 4);
    for (std::uint32_t i = 0; i < plane * planes; ++i) {
        put(i * 37 % 251, 1);
    }
    for (std::uint32_t i = 0; i < planes; ++i) {
        put(kPixels + i * plane, 4);
    }
    for (std::uint32_t i = 0; i < planes; ++i) {
        put(plane, 4);
    }
    for (std::uint32_t i = 0; i < kind.bands; ++i) {
        put(kind.bits, 2);
    }
    std::vector<std::array<std::uint32_t, 4>> tags;  // number, type (3: 16 bits, 4: 32 bits), count, value or place
    const auto list = [&](std::uint32_t number, std::uint32_t type, std::uint32_t count, std::uint32_t at,
                          std::uint32_t single) {
        tags.push_back({number, type, count, count == 1 ? single : at});
    };
    tags.push_back({256, 3, 1, kSide});
    tags.push_back({257, 3, 1, kSide});
    tags.push_back({258, 3, kind.bands, kind.bands <= 2 ? kind.bits * 0x10001 : lists + 8 * planes});
    tags.push_back({259, 3, 1, 1});
    tags.push_back({262, 3, 1, kind.photometric});
    if (!kind.tiled) {
        list(273, 4, planes, lists, kPixels);
    }
    tags.push_back({274, 3, 1, kind.orientation});
    tags.push_back({277, 3, 1, kind.bands});
    if (!kind.tiled) {
        tags.push_back({278, 3, 1, kSide});
        list(279, 4, planes, lists + 4 * planes, plane);
    }
    tags.push_back({284, 3, 1, kind.planes ? 2U : 1U});
    if (kind.tiled) {
        tags.push_back({322, 3, 1, kSide});
        tags.push_back({323, 3, 1, kSide});
        list(324, 4, planes, lists, kPixels);
        list(325, 4, planes, lists + 4 * planes, plane);
    }
    tags.push_back({339, 3, 1, kind.format});
    put(static_cast<std::uint32_t>(tags.size()), 2);
    for (const auto& [number, type, count, value] : tags) {
        put(number, 2);
        put(type, 2);
        put(count, 4);
        put(value, 4);
    }
    put(0, 4);
    return bytes;
}

std::vector<Bytes> tiffs() {
    return {tiff({}),
            tiff({.bits = 1, .photometric = 0}),
            tiff({.bits = 4}),
            tiff({.bands = 3, .photometric = 2, .orientation = 6}),
            tiff({.bits = 16, .bands = 3, .photometric = 2, .planes = true}),
            tiff({.bits = 16, .bands = 5, .format = 2, .tiled = true}),
            tiff({.bits = 32, .bands = 2, .format = 3, .planes = true, .tiled = true}),
            tiff({.bits = 32, .orientation = 3}),
            tiff({.bits = 8, .format = 2})};
}

std::vector<Bytes> pnms() {
    return {random_pnm(1, 5, 6, 255).bytes,
            random_pnm(3, 6, 5, 255).bytes,
            random_pnm(3, 5, 5, 1000).bytes,
            random_pnm(1, 5, 5, 3).bytes,
            bytes_of("P1 5 3 01010 1 1 1 1 1 # c\n0 1001"),
            bytes_of("P2 3 3 # c\n100 1 2 3 40 50 60 70 80 99\n"),
            bytes_of("P3 2 2 1000 1 2 3 4 5 6 7 8 9 10 11 999"),
            bytes_of("P4 9 3\nabcdef")};
}

void write_inputs(const std::filesystem::path& folder, const std::vector<Bytes>& inputs) {
    std::filesystem::create_directories(folder);
    for (std::size_t number = 0; number < inputs.size(); ++number) {
        std::ofstream file(folder / std::to_string(number), std::ios::binary);
        file.write(reinterpret_cast<const char*>(inputs[number].data()),
                   static_cast<std::streamsize>(inputs[number].size()));
    }
}

// Each image with two crops: nearly all of it, and a part from the middle.
void write(const std::filesystem::path& folder, const std::vector<Bytes>& images) {
    const Bytes choices[] = {bytes_of({0, 0, 0, 0, 255, 255, 255, 255, 11}),
                             bytes_of({60, 0, 80, 0, 120, 0, 140, 0, 6})};
    std::vector<Bytes> inputs;
    for (const Bytes& image : images) {
        for (const Bytes& choice : choices) {
            inputs.push_back(joined({choice, image}));
        }
    }
    write_inputs(folder, inputs);
}

}  // namespace
}  // namespace stoker::fuzz

int main(int count, char** arguments) {
    using namespace stoker::fuzz;
    if (count != 2) {
        return 2;
    }
    const std::filesystem::path root(arguments[1]);
    write(root / "jpeg", jpegs());
    write(root / "recode", jpegs());
    write(root / "png", pngs());
    write(root / "webp", webps());
    write(root / "bmp", bmps());
    write(root / "pnm", pnms());
    write_inputs(root / "tiff", tiffs());
    write(root / "dct", dct_records(jpegs()));
    write(root / "dct_crop", dct_records(jpegs()));
    write_inputs(root / "tar", tars());
    write_inputs(root / "tar_field", tar_fields());
    write_inputs(root / "tar_index", tar_indices());
    write_inputs(root / "remote_text", remote_texts());
    write_inputs(root / "remote_listing", remote_listings());
    write_inputs(root / "url_secrets", url_names());
    write_inputs(root / "counters", counter_texts());
    write_inputs(root / "trace", traces());
    write_inputs(root / "lmdb_record", lmdb_records());
    write_inputs(root / "lmdb_tree", lmdb_trees());
    write_inputs(root / "hdf5", hdf5_files());
    write_inputs(root / "tfrecord", tfrecords());
    write_inputs(root / "mds", mds_shards());
    write_inputs(root / "litdata", litdata_chunks());
    for (const auto& seeds : {format_seeds(), pickle_seeds()}) {
        for (const auto& [target, inputs] : seeds) {
            write_inputs(root / target, inputs);
        }
    }
    return 0;
}
