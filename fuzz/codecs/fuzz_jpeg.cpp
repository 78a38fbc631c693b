// Arbitrary bytes as JPEG; then with entry points, and with damaged ones, which are not always noticed.
#include "fuzz/codecs/decode.h"
#include "stoker/codecs/jpeg/jpeg.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

// The region equals that part of `whole`, if there is one.
void decode_box(JpegDecoder& decoder, std::span<const std::byte> jpeg, const Choice& choice, const Image* whole,
                EntryPointSlot& points) {
    static Image part;
    ChoiceSink sink(choice, 1, part);
    try {
        decoder.decode(jpeg, sink, &points);
    } catch (const DataError&) {
        require(whole == nullptr);
        return;
    }
    if (whole != nullptr) {
        require_same(part.view(), whole->view().crop(sink.box()));
    }
}

void decode_with_points(std::span<const std::byte> input) {
    static JpegDecoder decoder;
    static Decoder headers;
    static Image image;
    if (input.size() < kChoice) {
        return;
    }
    const Choice choice(input.first(kChoice));
    const std::span<const std::byte> jpeg = input.subspan(kChoice);
    if (sniff_codec(jpeg) != Codec::jpeg || !is_small(headers, jpeg)) {
        return;
    }
    const Image* whole = &image;
    try {
        ImageSink sink(image);
        decoder.decode_reference(jpeg, sink);
    } catch (const DataError&) {
        whole = nullptr;
    }
    EntryPointSlot points;
    decode_box(decoder, jpeg, choice, whole, points);
    decode_box(decoder, jpeg, choice, whole, points);
    if (std::vector<EntryPoint>& known = points.known.points; !known.empty()) {
        EntryPoint& point = known[choice.share[0] % known.size()];
        point.byte ^= choice.share[1] >> (choice.share[3] & 15);
        point.bit = static_cast<std::uint8_t>(point.bit ^ (choice.share[2] & 7));
        point.dc[0] = static_cast<std::int16_t>(point.dc[0] ^ (choice.share[3] >> 12));
        decode_box(decoder, jpeg, choice, nullptr, points);
    }
}

// Packed points are those that are unpacked.
void unpack(std::span<const std::byte> input) {
    if (const std::optional<EntryPoints> points = unpack_points(input)) {
        std::vector<std::byte> packed;
        pack_points(*points, packed);
        require(unpack_points(packed) == points);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> input = as_input(data, size);
    decode_input(Codec::jpeg, input);
    decode_with_points(input);
    unpack(input);
    return 0;
}
