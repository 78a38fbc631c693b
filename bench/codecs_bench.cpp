// What decoding a JPEG costs on one core: by libjpeg-turbo, by our own way, and from its dct records, the whole image
// and its middle half. The ways take turns over all images, so a noisy machine slows all of them alike.
//   codecs_bench FOLDER_OF_JPEGS [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "stoker/base/file.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/jpeg/jpeg.h"

namespace {

using namespace stoker;
using Bytes = std::vector<std::byte>;

// Keeps one row; wants all of an image, or the middle 70 % of both sides.
class OneRow final : public RowSink {
  public:
    bool half = false;

    Region region(int height, int width) override {
        const int h = half ? std::max(height * 7 / 10, 1) : height;
        const int w = half ? std::max(width * 7 / 10, 1) : width;
        return {.box = {(height - h) / 2, (width - w) / 2, h, w}};
    }
    void start(int /*height*/, int width, int channels) override {
        row_.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(channels));
    }
    std::uint8_t* row(int /*y*/) override { return row_.data(); }

  private:
    std::vector<std::uint8_t> row_;
};

struct Way {
    const char* name;
    std::vector<Bytes> images;
    std::function<void(std::span<const std::byte>, RowSink&)> decode;
    std::vector<double> ms = {};  // an image, of each round
};

double thread_ms() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

void measure(std::vector<Way>& ways, bool half, int rounds) {
    OneRow sink;
    sink.half = half;
    for (int round = 0; round < rounds; ++round) {
        for (Way& way : ways) {
            const double start = thread_ms();
            for (const Bytes& image : way.images) {
                way.decode(image, sink);
            }
            way.ms.push_back((thread_ms() - start) / static_cast<double>(way.images.size()));
        }
    }
    fmt::print("{}\n", half ? "the middle half of its pixels" : "the whole image");
    for (Way& way : ways) {
        std::sort(way.ms.begin(), way.ms.end());
        fmt::print("  {:<16} {:.3f} ms an image ({:.3f} at best), {:6.0f} images/s\n", way.name,
                   way.ms[way.ms.size() / 2], way.ms.front(), 1e3 / way.ms[way.ms.size() / 2]);
        way.ms.clear();
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        fmt::print(stderr, "codecs_bench FOLDER_OF_JPEGS [ROUNDS]\n");
        return 2;
    }
    Decoder decoder;
    JpegDecoder reference;
    const auto ours = [&](std::span<const std::byte> bytes, RowSink& sink) { decoder.decode(bytes, sink); };
    const auto libjpeg = [&](std::span<const std::byte> bytes, RowSink& sink) {
        reference.decode_reference(bytes, sink);
    };
    std::vector<Way> ways = {{"libjpeg-turbo", {}, libjpeg},
                             {"JPEG", {}, ours},
                             {"dct", {}, ours},
                             {"dct-zstd", {}, ours},
                             {"dct-ans", {}, ours}};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[1])) {
        if (!entry.is_regular_file()) {
            continue;
        }
        const std::string file = read_text(entry.path());
        const Bytes jpeg(as_bytes(file).begin(), as_bytes(file).end());
        ways[0].images.push_back(jpeg);
        ways[1].images.push_back(jpeg);
        ways[2].images.push_back(encode_dct(jpeg).bytes);
        ways[3].images.push_back(encode_dct(jpeg, DctKind::zstd).bytes);
        ways[4].images.push_back(encode_dct(jpeg, DctKind::ans).bytes);
    }
    for (const Way& way : ways) {
        std::size_t bytes = 0;
        for (const Bytes& image : way.images) {
            bytes += image.size();
        }
        fmt::print("{:<16} {} bytes\n", way.name, bytes);
    }
    const int rounds = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 20;
    measure(ways, false, rounds);
    measure(ways, true, rounds);
    return 0;
}
