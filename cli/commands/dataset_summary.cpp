// Each piece of work fills its own DatasetSummary; they are added under a lock.
#include "cli/commands/dataset_summary.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <mutex>
#include <numeric>

#include "cli/terminal/parallel.h"
#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/codecs/audio/audio.h"
#include "stoker/codecs/codec.h"
#include "stoker/codecs/tiff.h"
#include "stoker/codecs/video/video.h"
#include "stoker/formats/dataset.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/stk/stk.h"
#include "stoker/pipeline/read_sample.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker::cli {
namespace {

constexpr std::int64_t kMaxSampled = 1000;
constexpr std::int64_t kRanged = 32;  // images whose values are read without `verify`, spread evenly

struct Reader {
    Sample sample;
    Transform transform;  // without ops: only checks and decodes
    TransformScratch scratch;
    TransformScratch fields;  // for masks: the sample's image has its own
    Image field;              // a further image
    Buffer sound;             // decoded
    bool ranges = true;       // the sample's values count
};

void count_label(std::int64_t label, std::vector<std::int64_t>& per_class) {
    constexpr std::int64_t kMostClasses = 1 << 20;  // a label from a hostile file allocates no memory
    if (label >= 0 && label < kMostClasses) {
        const auto at = static_cast<std::size_t>(label);
        per_class.resize(std::max(per_class.size(), at + 1));
        ++per_class[at];
    }
}

// Decodes a further image, or a mask, which must have the size of the sample's image.
void check_pixels(const Field& field, const FieldValue& value, bool has_image, Reader& reader, StageClock& clock) {
    if (field.kind == FieldKind::mask && has_image) {
        try {
            reader.transform.mask(value, reader.scratch.input, OpRange::all, {}, reader.fields, clock);
        } catch (const DataError& error) {
            ErrorInfo info = error.info();
            info.expected += " for " + field.name;
            throw DataError(error.place(), info);
        }
    } else if (value.encoded && !is_tiff(value.bytes)) {
        ImageSink sink(reader.field);
        reader.fields.decoder.decode(value.bytes, sink, {.indices = field.kind == FieldKind::mask});
    } else {
        reader.transform.picture(value, {}, reader.fields, clock);
    }
}

// Fields have the length that the data set says; with `verify` their images are decoded.
void check_fields(const Dataset& dataset, bool verify, Reader& reader, StageClock& clock) {
    const std::span<const Field> fields = dataset.fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Field& field = fields[i];
        const FieldValue& value = reader.sample.field(i);
        if (has_pixels(field.kind)) {
            if (verify && value.frames.empty()) {
                check_pixels(field, value, dataset.has_image(), reader, clock);
            }
            for (std::size_t frame = 0; verify && frame < value.frames.size(); ++frame) {
                check_pixels(field, value.frames[frame], dataset.has_image(), reader, clock);
            }
            continue;
        }
        const std::size_t item = field.item_bytes();
        const bool fits = !field.any_length() ? value.bytes.size() == item
                          : item == 0         ? value.bytes.empty()
                                              : value.bytes.size() % item == 0;
        if (!fits) {
            throw DataError({}, {.where = field.name,
                                 .expected = "the field " + describe_fields(fields.subspan(i, 1)),
                                 .got = fmt::format("{} bytes", value.bytes.size())});
        }
    }
}

// The values of an image that is not of bytes.
void add_range(Reader& reader, DatasetSummary& found) {
    if (!reader.ranges) {
        return;
    }
    StageTimes times;
    StageClock clock(times);
    const ConstPlanesView planes = reader.transform.planes(first_image(reader.sample), {}, reader.scratch, clock);
    const auto [low, high] = value_range(planes);
    found.low = found.ranged == 0 ? low : std::min(found.low, low);
    found.high = found.ranged == 0 ? high : std::max(found.high, high);
    ++found.ranged;
}

void read_video(std::span<const std::byte> bytes, bool verify, DatasetSummary& found) {
    VideoFile video(bytes);
    const VideoInfo info = video.info();
    ++found.codecs[info.codec];
    found.height.add(info.height);
    found.width.add(info.width);
    found.channels.add(3);
    found.frames.add(static_cast<int>(std::min<std::int64_t>(info.frames, std::numeric_limits<int>::max())));
    if (verify) {
        std::vector<std::int64_t> all(static_cast<std::size_t>(info.frames));
        std::iota(all.begin(), all.end(), 0);
        video.decode(all, [](ConstImageView) {});
    }
}

void read_sound(Reader& reader, bool verify, DatasetSummary& found) {
    const AudioInfo info = AudioFile(reader.sample.bytes).info();
    ++found.codecs[info.codec];
    found.channels.add(info.channels);
    found.sample_rate.add(info.rate);
    const double milliseconds = 1000.0 * static_cast<double>(info.samples) / info.rate;
    found.milliseconds.add(static_cast<int>(std::min(milliseconds, double{std::numeric_limits<int>::max()})));
    found.depth = dtype_name(DType::float32);
    if (verify) {
        decode_wanted(reader.sample, {}, reader.sound);
    }
}

void read_sample(const Dataset& dataset, std::int64_t index, bool verify, Reader& reader, DatasetSummary& found) {
    Sample& sample = reader.sample;
    const auto* stk = dynamic_cast<const StkDataset*>(&dataset);
    if (verify && stk != nullptr) {
        stk->reader().verify(index);
    }
    stoker::read_sample(dataset, index, sample);
    if (sample.encoded && is_video(sample.bytes)) {
        found.unlabelled += sample.label < 0;
        count_label(sample.label, found.per_class);
        read_video(sample.bytes, verify, found);
        return;
    }
    if (sample.encoded && is_sound(sample.bytes)) {
        found.unlabelled += sample.label < 0;
        count_label(sample.label, found.per_class);
        read_sound(reader, verify, found);
        return;
    }
    const FieldValue& image = first_image(sample);
    found.unlabelled += sample.label < 0;
    if (stk == nullptr) {  // its labels are counted from the index
        count_label(sample.label, found.per_class);
    }
    if (!sample.frames.empty()) {
        found.frames.add(static_cast<int>(sample.frames.size()));
    }
    if (!dataset.has_image()) {
        ++found.codecs["none"];
    } else if (image.encoded) {
        const std::optional<Codec> codec = sniff_codec(image.bytes);
        ++found.codecs[codec ? std::string(codec_name(*codec)) : "unknown"];
        const ImageInfo info = reader.scratch.decoder.info(image.bytes);
        found.height.add(info.height);
        found.width.add(info.width);
        found.channels.add(info.channels);
        found.progressive += info.progressive;
        found.rotated += info.orientation != 1;
        const TiffImage tiff = info.codec == Codec::tiff ? read_tiff_header(image.bytes) : TiffImage();
        if (info.codec == Codec::tiff ? is_deep(image) : info.bits > 8 && info.codec == Codec::png) {
            found.depth = info.codec == Codec::tiff ? dtype_name(tiff.dtype) : "uint16";
            add_range(reader, found);
        }
        found.paged += info.codec == Codec::tiff && tiff_pages(image.bytes, 2).size() > 1;
        found.deep += info.bits > 8;
        found.reduced += info.bits > 8 && info.codec != Codec::png && info.codec != Codec::tiff;
    } else {
        ++found.codecs["raw"];
        found.height.add(image.height);
        found.width.add(image.width);
        found.channels.add(image.channels);
        found.depth = dtype_name(image.dtype.value_or(DType::uint8));
        if (image.is_deep()) {
            add_range(reader, found);
        }
    }
    StageTimes times;
    StageClock clock(times);
    if (dataset.has_image() && (verify || !image.encoded)) {
        reader.transform.picture(image, {}, reader.scratch, clock);
    }
    std::optional<ImageSize> first;
    for (std::size_t i = 0; verify && i < sample.frames.size(); ++i) {
        reader.transform.picture(sample.frames[i], {}, reader.scratch, clock);
        require_one_size(reader.scratch.input, first);
    }
    check_fields(dataset, verify, reader, clock);
}

// Lists a sample that cannot be read or decoded.
void add_sample(const Dataset& dataset, std::int64_t index, bool verify, Reader& reader, DatasetSummary& found) {
    ++found.read;
    try {
        read_sample(dataset, index, verify, reader, found);
    } catch (const DataError& error) {
        found.bad.push_back({index, key_or_index(dataset, index), error.place().offset,
                             fmt::format("expected {}, got {}", error.info().expected, error.info().got)});
    } catch (const Unsupported& error) {
        found.bad.push_back({index, key_or_index(dataset, index), std::nullopt, error.what()});
    }
    check_maps();
}

void add(DatasetSummary& sum, const DatasetSummary& part) {
    sum.read += part.read;
    sum.progressive += part.progressive;
    sum.rotated += part.rotated;
    sum.deep += part.deep;
    sum.reduced += part.reduced;
    sum.paged += part.paged;
    sum.depth = part.depth == "uint8" ? sum.depth : part.depth;
    if (part.ranged > 0) {
        sum.low = sum.ranged == 0 ? part.low : std::min(sum.low, part.low);
        sum.high = sum.ranged == 0 ? part.high : std::max(sum.high, part.high);
        sum.ranged += part.ranged;
    }
    sum.unlabelled += part.unlabelled;
    for (const auto& [name, count] : part.codecs) {
        sum.codecs[name] += count;
    }
    sum.height.add(part.height);
    sum.width.add(part.width);
    sum.channels.add(part.channels);
    sum.frames.add(part.frames);
    sum.sample_rate.add(part.sample_rate);
    sum.milliseconds.add(part.milliseconds);
    sum.per_class.resize(std::max(sum.per_class.size(), part.per_class.size()));
    for (std::size_t i = 0; i < part.per_class.size(); ++i) {
        sum.per_class[i] += part.per_class[i];
    }
    sum.bad.insert(sum.bad.end(), part.bad.begin(), part.bad.end());
}

// From labels that are known without reading the samples; empty if they are not. A bad label is not counted.
std::vector<std::int64_t> count_known_labels(const Dataset& dataset) {
    std::vector<std::int64_t> counts(dataset.classes().size());
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
        try {
            const std::optional<std::int64_t> label = dataset.label(i);
            if (!label) {
                return {};
            }
            count_label(*label, counts);
        } catch (const DataError&) {  // listed when the sample is read
        }
    }
    return counts;
}

// Decided by the first sample that can be read.
bool holds_encoded(const Dataset& dataset) {
    Sample sample;
    for (std::int64_t i = 0; i < std::min(dataset.size(), kMaxSampled); ++i) {
        try {
            dataset.read(i, sample);
            return first_image(sample).encoded;
        } catch (const DataError&) {  // listed when the samples are read
        } catch (const Unsupported&) {
        }
    }
    return true;
}

}  // namespace

DatasetSummary summarize(const Dataset& dataset, bool verify, ProgressBar& progress, const PackPart& part) {
    DatasetSummary sum;
    const auto* stk = dynamic_cast<const StkDataset*>(&dataset);
    const bool folder = dataset.format() == "image_folder";
    sum.encoded = folder;
    if (stk != nullptr) {
        const auto codecs = stk->codecs();
        sum.encoded = dataset.has_image() && (codecs.size() > 1 || !codecs.contains("raw"));
    } else if (!folder && dataset.size() > 0) {
        sum.encoded = holds_encoded(dataset);
    }
    const std::int64_t size = dataset.size();
    const auto share = part.of(size);
    const std::int64_t first = share.first;
    const std::int64_t own = share.second - first;
    const std::int64_t count = verify || !sum.encoded ? own : std::min(own, kMaxSampled);
    std::mutex mutex;
    const RangeWork range{.label = verify ? "verify" : "read", .unit = "samples", .count = count, .grain = 16};
    run_parallel(range, progress, [&](std::int64_t begin, std::int64_t end) {
        Reader reader;
        DatasetSummary found;
        for (std::int64_t i = begin; i < end; ++i) {
            reader.ranges = verify || i % std::max<std::int64_t>(1, count / kRanged) == 0;
            add_sample(dataset, first + (count == own ? i : i * own / count), verify, reader, found);
        }
        const std::lock_guard lock(mutex);
        add(sum, found);
    });
    std::ranges::sort(sum.bad, {}, &BadSample::index);
    sum.codecs_counted = sum.read;
    if (stk != nullptr) {
        sum.codecs_counted = size;
        sum.codecs = stk->codecs();
    }
    if (auto known = count_known_labels(dataset); !known.empty()) {
        sum.per_class = std::move(known);
    } else if (count < size) {
        sum.per_class.clear();
    } else if (!sum.per_class.empty()) {
        sum.per_class.resize(std::max(sum.per_class.size(), dataset.classes().size()));
    }
    return sum;
}

}  // namespace stoker::cli
