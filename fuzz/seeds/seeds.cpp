// Writes the fuzzer's first inputs with our own encoders: `seeds DIR` writes DIR/<target>/<number>. They are small,
// because most changes to a large file would hit pixels.
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
    write(root / "dct", dct_records(jpegs()));
    write(root / "dct_crop", dct_records(jpegs()));
    write_inputs(root / "tar", tars());
    write_inputs(root / "tar_field", tar_fields());
    write_inputs(root / "tar_index", tar_indices());
    write_inputs(root / "remote_text", remote_texts());
    write_inputs(root / "url_secrets", url_names());
    write_inputs(root / "counters", counter_texts());
    write_inputs(root / "trace", traces());
    write_inputs(root / "lmdb_record", lmdb_records());
    write_inputs(root / "lmdb_tree", lmdb_trees());
    write_inputs(root / "hdf5", hdf5_files());
    for (const auto& seeds : {format_seeds(), pickle_seeds()}) {
        for (const auto& [target, inputs] : seeds) {
            write_inputs(root / target, inputs);
        }
    }
    return 0;
}
