// Images that travel as bytes and are normalised on the device, compared bit for bit with the floats of the loader
// alone: for every op that a recipe may name, every layout and every type.
#include "stoker/bridge/pixels.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <map>

#include "pipeline/pixel_source.h"
#include "stoker/base/error.h"
#include "stoker/bridge/device_copier.h"
#include "stoker/bridge/tensor.h"
#include "stoker/pipeline/transforms/op_table.h"

namespace stoker {
namespace {

using testing::PixelDataset;
using Options = std::map<std::string, OptionValue>;
using Numbers = std::vector<double>;

// The image ops in the message that refuses an unknown one, so that a new op is tested without a line here.
std::vector<std::string> op_names() {
    std::vector<std::string> names;
    try {
        make_ops({{.name = "no such op"}});
    } catch (const InvalidArgument& error) {
        const std::string text = error.what();  // "... expected an op: A, B, C, got ..."
        for (std::size_t at = text.find("an op: ") + 7; text.compare(at, 4, "got ") != 0;) {
            const std::size_t end = text.find(", ", at);
            const std::string name = text.substr(at, end - at);
            if (sound_op_maker(name) == nullptr) {
                names.push_back(name);
            }
            at = end + 2;
        }
    }
    return names;
}

// Options without which an op is refused, or would change nothing.
Options options_of(const std::string& op) {
    const std::map<std::string, Options> all = {
        {"random_resized_crop", {{"size", 8.0}}},
        {"resize", {{"size", Numbers{9, 7}}}},
        {"center_crop", {{"size", Numbers{16, 6}}}},
        {"random_crop", {{"size", 8.0}, {"padding", 2.0}}},
        {"random_rotation", {{"degrees", 30.0}}},
        {"random_affine", {{"degrees", 30.0}}},
        {"color_jitter", {{"brightness", 0.4}, {"contrast", 0.4}, {"saturation", 0.4}, {"hue", 0.1}}},
        {"random_posterize", {{"bits", 3.0}}},
        {"random_solarize", {{"threshold", 128.0}}},
        {"random_adjust_sharpness", {{"sharpness_factor", 2.0}}},
        {"gaussian_blur", {{"kernel_size", 3.0}}},
        {"random_erasing", {{"p", 1.0}}},
        {"window", {{"center", 128.0}, {"width", 64.0}}},
        {"aspect_crop", {{"size", 16.0}, {"step", 8.0}}},
        {"normalize", {{"preset", "imagenet"}}},
        {"random_apply", {{"ops", std::vector<OpSpec>{{.name = "vertical_flip"}, {.name = "random_invert"}}}}},
        {"random_choice", {{"ops", std::vector<OpSpec>{{.name = "vertical_flip"}, {.name = "random_invert"}}}}},
    };
    const auto found = all.find(op);
    return found == all.end() ? Options() : found->second;
}

// Each op alone and followed by normalize, then some recipes.
std::vector<std::vector<OpSpec>> op_lists() {
    const auto spec = [](const std::string& name) { return OpSpec{.name = name, .options = options_of(name)}; };
    std::vector<std::vector<OpSpec>> lists = {{}};
    for (const std::string& name : op_names()) {
        lists.push_back({spec(name)});
        if (!name.starts_with("normalize")) {
            lists.push_back({spec(name), spec("normalize")});
        }
    }
    lists.push_back({spec("random_resized_crop"), spec("horizontal_flip"), spec("normalize")});
    lists.push_back({spec("resize"), spec("center_crop"), spec("normalize")});
    lists.push_back(
        {spec("random_crop"),
         spec("horizontal_flip"),
         spec("color_jitter"),
         spec("random_erasing"),
         {.name = "normalize", .options = {{"mean", Numbers{0.1, 0.2, 0.3}}, {"std", Numbers{0.5, 2, 1}}}}});
    return lists;
}

DeviceBatch first_batch(const std::shared_ptr<const Dataset>& dataset, const Transform& transform,
                        const LoaderOptions& options, const BatchFields& fields = {}) {
    Loader loader(dataset, transform, options);
    DeviceCopier copier(at::kCPU, fields);
    return copier.copy(loader.next());
}

void expect_same(const at::Tensor& own, const at::Tensor& expected, const std::string& what) {
    EXPECT_EQ(own.strides(), expected.strides()) << what;
    EXPECT_EQ(own.scalar_type(), expected.scalar_type()) << what;
    EXPECT_TRUE(at::equal(own, expected)) << what;
}

TEST(Pixels, BytesBecomeTheFloatsOfTheLoaderForEveryOp) {
    const auto dataset = std::make_shared<PixelDataset>(8);
    EXPECT_GE(op_names().size(), 23U);
    for (const std::vector<OpSpec>& ops : op_lists()) {
        const Transform transform(ops);
        if (transform.needs_planes()) {  // which no device normalises
            continue;
        }
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            const DeviceBatch bytes =
                first_batch(dataset, transform,
                            {.batch_size = 8, .workers = 0, .layout = layout, .images = PixelImages{.dtype = {}}});
            ASSERT_TRUE(bytes.late);
            EXPECT_EQ(bytes.input.scalar_type(), at::kByte);
            EXPECT_TRUE(bytes.input.is_contiguous(at::MemoryFormat::ChannelsLast));
            for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
                const DeviceBatch expected = first_batch(
                    dataset, transform,
                    {.batch_size = 8, .workers = 0, .layout = layout, .images = PixelImages{.dtype = dtype}});
                EXPECT_FALSE(expected.late);
                DeviceBatch own = bytes;
                normalize_pixels(own, scalar_type(dtype));
                EXPECT_FALSE(own.late);
                expect_same(own.input, expected.input, ops.empty() ? "no ops" : ops.front().name);
            }
        }
    }
}

TEST(Pixels, ImagesThatTheLoaderNormalisesTravelInTheTypeOfTheStep) {
    const auto dataset = std::make_shared<PixelDataset>(8);
    const Transform transform({{.name = "to_float"}, {.name = "normalize", .options = options_of("normalize")}});
    ASSERT_TRUE(transform.needs_planes());
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
        const DeviceBatch expected =
            first_batch(dataset, transform, {.batch_size = 8, .workers = 0, .images = PixelImages{.dtype = dtype}});
        DeviceBatch own = first_batch(
            dataset, transform, {.batch_size = 8, .workers = 0, .images = PixelImages{.dtype = {}}, .planes = dtype});
        EXPECT_FALSE(own.late);
        normalize_pixels(own, at::kFloat);
        expect_same(own.input, expected.input, std::string(dtype_name(dtype)));
    }
}

// Grey images, and those of two and four channels.
TEST(Pixels, AnyNumberOfChannels) {
    for (const int channels : {1, 2, 4}) {
        const auto dataset = std::make_shared<PixelDataset>(8, 12, 10, channels);
        const Transform transform{Normalize{{0.1F, 0.2F, 0.3F, 0.4F}, {0.5F, 0.6F, 0.7F, 0.8F}}};
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            DeviceBatch own =
                first_batch(dataset, transform,
                            {.batch_size = 8, .workers = 0, .layout = layout, .images = PixelImages{.dtype = {}}});
            normalize_pixels(own);
            const DeviceBatch expected =
                first_batch(dataset, transform, {.batch_size = 8, .workers = 0, .layout = layout});
            EXPECT_TRUE(at::equal(own.input, expected.input)) << channels;
        }
    }
}

// Three images of a PixelDataset are a clip.
class Clips final : public Dataset {
  public:
    std::int64_t size() const override { return 4; }
    void read(std::int64_t index, Sample& sample) const override {
        sample.label = index;
        for (const std::int64_t frame : sample.begin_clip(3)) {
            Sample image;
            images_.read(3 * index + frame, image);
            FieldValue& value = sample.frames.emplace_back();
            value.storage = std::move(image.storage);
            value.set_raw(value.storage.bytes(), image.height, image.width, image.channels);
        }
    }

  private:
    PixelDataset images_{12};
};

TEST(Pixels, FramesOfClipsAreImages) {
    const auto dataset = std::make_shared<Clips>();
    const Transform transform{HorizontalFlip{}, kImageNetNormalize};
    for (const Layout layout : {Layout::chw, Layout::hwc}) {
        LoaderOptions options{.batch_size = 4, .workers = 0, .layout = layout, .images = PixelImages{.dtype = {}}};
        DeviceBatch own = first_batch(dataset, transform, options);
        EXPECT_EQ(own.input.sizes().vec(), (std::vector<std::int64_t>{4, 3, 3, 12, 10}));
        EXPECT_EQ(own.input.scalar_type(), at::kByte);
        normalize_pixels(own);
        options.images = PixelImages();
        const DeviceBatch expected = first_batch(dataset, transform, options);
        EXPECT_TRUE(at::equal(own.input, expected.input));
        EXPECT_EQ(own.input.strides(), expected.input.strides());
    }
}

// Further views and images have separate ops, and so other factors; masks and labels do not change.
TEST(Pixels, EveryImageOfABatchAndNothingElse) {
    const auto dataset = PixelDataset::with_fields(8);
    const Transform transform{HorizontalFlip{}, kImageNetNormalize};
    const LoaderOptions options{
        .batch_size = 8,
        .workers = 0,
        .views = 2,
        .fields = {
            {.name = "pair", .transform = std::make_shared<const Transform>(std::vector<Op>{kCifar10Normalize})}}};
    LoaderOptions bytes = options;
    bytes.images = PixelImages{.dtype = {}};
    const BatchFields fields{.more = {"image_2", "pair", "mask", "value", "flags"}};
    const DeviceBatch expected = first_batch(dataset, transform, options, fields);
    DeviceBatch own = first_batch(dataset, transform, bytes, fields);
    EXPECT_EQ(own.field("pair").scalar_type(), at::kByte);
    normalize_pixels(own);
    EXPECT_TRUE(at::equal(own.input, expected.input));
    EXPECT_FALSE(at::equal(own.input, expected.field("image_2")));
    for (const DeviceField& field : expected.fields) {
        expect_same(own.field(field.name), field.tensor, field.name);
    }
    EXPECT_EQ(own.field("mask").scalar_type(), at::kByte);
}

TEST(Pixels, PartsOfABatchKeepWhatIsLeftToDo) {
    const DeviceBatch whole = first_batch(std::make_shared<PixelDataset>(8), Transform{kImageNetNormalize},
                                          {.batch_size = 8, .workers = 0, .images = PixelImages{.dtype = {}}});
    DeviceBatch all = whole;
    normalize_pixels(all);
    DeviceBatch part = whole.narrow(2, 3);
    normalize_pixels(part);
    EXPECT_TRUE(at::equal(part.input, all.input.narrow(0, 2, 3)));
}

// The kernel on a GPU; the bits are those of LibTorch's operations there and on the CPU.
TEST(PixelsCuda, TheKernelIsTheReference) {
    const at::Device device = pick_device("auto");
    if (!device.is_cuda()) {
        GTEST_SKIP() << "no CUDA device";
    }
    const NormalizeFactors factors = normalize_factors(kImageNetNormalize);
    for (const std::int64_t channels : {1, 3, 4}) {
        const at::Tensor bytes =
            at::randint(256, {5, channels, 33, 17}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
        for (const Layout layout : {Layout::chw, Layout::hwc}) {
            for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
                const DeferredNormalize late{.factors = factors, .layout = layout};
                const at::Tensor expected = normalize_pixels_reference(bytes, late, type);
                expect_same(normalize_pixels_reference(bytes.to(device), late, type).cpu(), expected, "operations");
                DeviceBatch batch{.input = bytes.to(device), .late = late};
                normalize_pixels(batch, type);
                expect_same(batch.input.cpu(), expected, "kernel");
                DeviceBatch part = DeviceBatch{.input = bytes.to(device), .late = late}.narrow(1, 3);
                normalize_pixels(part, type);
                EXPECT_TRUE(at::equal(part.input.cpu(), expected.narrow(0, 1, 3)));
            }
        }
    }
}

}  // namespace
}  // namespace stoker
