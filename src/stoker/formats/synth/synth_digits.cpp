// Draws each digit from the strokes of a style: the control points are displaced, bent, sheared and rotated, split into
// short segments, and inked by distance. Every stage has its own random generator.
#include "stoker/formats/synth/synth_digits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/formats/class_names.h"
#include "stoker/formats/synth/synth_glyphs.h"
#include "stoker/formats/synth/vector_length.h"

namespace stoker {
namespace {

constexpr int kSide = 28;
constexpr std::size_t kPixels = kSide * kSide;

// The `op` of each stage's random generator. The values are far from those of the pipeline's ops, so that with the same
// seed an augmentation does not draw the numbers that chose the label.
enum Stage : std::uint16_t { kChoice = 0xD100, kShape, kPen, kGrain };

Rng stage_rng(Stage stage, Split split, std::int64_t index, std::uint64_t seed) {
    return Rng({.seed = seed,
                .epoch = split == Split::train ? 0u : 1u,
                .sample = static_cast<std::uint64_t>(index),
                .op = stage});
}

struct Vec {
    float x = 0;
    float y = 0;
};

// A straight piece of a stroke from a to b, in percent of the glyph's height, later in pixels. `progress` is the
// fraction of the stroke before it.
struct Segment {
    Vec a;
    Vec b;
    float progress = 0;
};

constexpr int kSteps = 4;  // segments between two control points

class Segments {
  public:
    void add(Vec a, Vec b, float progress) { items_[count_++] = {a, b, progress}; }
    std::span<Segment> all() { return {items_.data(), count_}; }

  private:
    std::array<Segment, glyphs::kMaxStrokes * glyphs::kMaxPoints * kSteps> items_;
    std::size_t count_ = 0;
};

// A smooth distortion of the plane: three sine waves for each axis.
class Warp {
  public:
    Warp(Rng& rng, float amplitude) {
        for (Wave& wave : waves_) {
            wave = {{rng.uniform(-0.07f, 0.07f), rng.uniform(-0.07f, 0.07f)},
                    rng.uniform(0.0f, 2.0f * std::numbers::pi_v<float>),
                    {rng.uniform(-amplitude, amplitude), rng.uniform(-amplitude, amplitude)}};
        }
    }

    Vec operator()(Vec p) const {
        Vec moved = p;
        for (const Wave& wave : waves_) {
            const float s = std::sin(wave.frequency.x * p.x + wave.frequency.y * p.y + wave.phase);
            moved.x += wave.shift.x * s;
            moved.y += wave.shift.y * s;
        }
        return moved;
    }

  private:
    struct Wave {
        Vec frequency;  // radians per percent of the glyph's height
        float phase = 0;
        Vec shift;
    };
    std::array<Wave, 3> waves_;
};

// Catmull-Rom between p1 and p2.
Vec spline(Vec p0, Vec p1, Vec p2, Vec p3, float t) {
    const auto axis = [t](float a, float b, float c, float d) {
        return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
    };
    return {axis(p0.x, p1.x, p2.x, p3.x), axis(p0.y, p1.y, p2.y, p3.y)};
}

// Displaces the stroke's points at random, distorts it and appends its segments.
void flatten(const glyphs::Stroke& stroke, float shake, const Warp& warp, Rng& rng, Segments& out) {
    const int count = static_cast<int>(stroke.count);
    std::array<Vec, glyphs::kMaxPoints> points{};
    for (std::size_t i = 0; i < stroke.count; ++i) {
        points[i] = {static_cast<float>(stroke.points[i].x) + rng.uniform(-shake, shake),
                     static_cast<float>(stroke.points[i].y) + rng.uniform(-shake, shake)};
    }
    const auto at = [&](int i) {
        const int k = stroke.closed ? (i + count) % count : std::clamp(i, 0, count - 1);
        return points[static_cast<std::size_t>(k)];
    };
    const int spans = stroke.closed ? count : count - 1;
    Vec last = warp(at(0));
    for (int step = 0; step < spans * kSteps; ++step) {
        const int i = step / kSteps;
        const float t = static_cast<float>(step % kSteps + 1) / kSteps;
        const Vec p = stroke.smooth ? spline(at(i - 1), at(i), at(i + 1), at(i + 2), t)
                                    : Vec{at(i).x + t * (at(i + 1).x - at(i).x), at(i).y + t * (at(i + 1).y - at(i).y)};
        const Vec next = warp(p);
        out.add(last, next, static_cast<float>(step) / static_cast<float>(spans * kSteps));
        last = next;
    }
}

// Rotates, shears and stretches the segments, still in percent, about the glyph's middle.
void slant(std::span<Segment> segments, Rng& rng) {
    const float angle = 0.16f * std::clamp(rng.normal(), -2.0f, 2.0f);
    const float shear = 0.10f + 0.22f * std::clamp(rng.normal(), -1.8f, 1.8f);  // most handwriting leans to the right
    const float wide = rng.uniform(0.70f, 1.16f);
    const float c = std::cos(angle);
    const float s = std::sin(angle);
    const auto move = [&](Vec& p) {
        const float y = p.y - 50;
        const float x = wide * (p.x - 50) - shear * y;
        p = {c * x - s * y, s * x + c * y};
    };
    for (Segment& segment : segments) {
        move(segment.a);
        move(segment.b);
    }
}

// Scales the digit to the size of MNIST's (20 pixels, here 16 to 20), moves its centre of mass near the middle of the
// image, and keeps it inside the frame.
void place(std::span<Segment> segments, float margin, Rng& rng) {
    Vec low{1e9f, 1e9f};
    Vec high{-1e9f, -1e9f};
    Vec centre;
    float length = 0;
    for (const Segment& segment : segments) {
        for (const Vec p : {segment.a, segment.b}) {
            low = {std::min(low.x, p.x), std::min(low.y, p.y)};
            high = {std::max(high.x, p.x), std::max(high.y, p.y)};
        }
        const float part = vector_length(segment.b.x - segment.a.x, segment.b.y - segment.a.y);
        centre.x += part * 0.5f * (segment.a.x + segment.b.x);
        centre.y += part * 0.5f * (segment.a.y + segment.b.y);
        length += part;
    }
    const float scale = (rng.uniform(17.0f, 21.0f) - 0.6f * margin) / std::max(high.x - low.x, high.y - low.y);
    const auto offset = [&](float middle, float from, float to, float nudge) {
        const float wanted = 0.5f * kSide - scale * middle + nudge;
        return std::clamp(wanted, margin - scale * from, kSide - margin - scale * to);
    };
    const float x = offset(centre.x / length, low.x, high.x, rng.uniform(-1.2f, 1.2f));
    const float y = offset(centre.y / length, low.y, high.y, rng.uniform(-1.2f, 1.2f));
    for (Segment& segment : segments) {
        segment.a = {scale * segment.a.x + x, scale * segment.a.y + y};
        segment.b = {scale * segment.b.x + x, scale * segment.b.y + y};
    }
}

struct Pen {
    float radius = 1;      // half the stroke's width, pixels
    float swell = 0;       // relative growth of the width along a stroke
    float softness = 1;    // pixels over which the edge fades
    float brightness = 1;  // of full ink
    float fading = 0;      // fraction of brightness lost towards one side
    float grain = 0;       // relative standard deviation of the grain

    explicit Pen(Rng& rng)
        : radius(rng.uniform(0.85f, 1.80f)),
          swell(rng.uniform(-0.3f, 0.3f)),
          softness(rng.uniform(0.9f, 1.5f)),
          brightness(rng.uniform(0.8f, 1.08f)),
          fading(rng.uniform(0.0f, 0.25f)),
          grain(rng.uniform(0.02f, 0.10f)) {}

    float reach() const { return radius * (1 + std::abs(swell)) + softness; }
};

// The squared distance of each pixel to the nearest stroke, in units of the stroke's radius.
using Field = std::array<float, kPixels>;

void ink_segment(const Segment& segment, const Pen& pen, Field& field) {
    const float reach = pen.reach();
    const auto clip = [](float v) { return std::clamp(static_cast<int>(v), 0, kSide); };
    const int left = clip(std::min(segment.a.x, segment.b.x) - reach);
    const int right = clip(std::max(segment.a.x, segment.b.x) + reach + 1);
    const int top = clip(std::min(segment.a.y, segment.b.y) - reach);
    const int bottom = clip(std::max(segment.a.y, segment.b.y) + reach + 1);
    const Vec along{segment.b.x - segment.a.x, segment.b.y - segment.a.y};
    const float inverse = 1.0f / std::max(along.x * along.x + along.y * along.y, 1e-6f);
    const float radius = pen.radius * (1 + pen.swell * (2 * segment.progress - 1));
    const float unit = 1.0f / (radius * radius);
    for (int y = top; y < bottom; ++y) {
        const float py = static_cast<float>(y) + 0.5f - segment.a.y;
        float* row = field.data() + y * kSide;
        for (int x = left; x < right; ++x) {
            const float px = static_cast<float>(x) + 0.5f - segment.a.x;
            const float t = std::clamp((px * along.x + py * along.y) * inverse, 0.0f, 1.0f);
            const float dx = px - t * along.x;
            const float dy = py - t * along.y;
            row[x] = std::min(row[x], (dx * dx + dy * dy) * unit);
        }
    }
}

void develop(const Field& field, const Pen& pen, Rng& rng, std::byte* pixels) {
    const float turn = rng.uniform(0.0f, 2.0f * std::numbers::pi_v<float>);
    const float fade_x = std::cos(turn) * pen.fading / kSide;
    const float fade_y = std::sin(turn) * pen.fading / kSide;
    for (int y = 0; y < kSide; ++y) {
        for (int x = 0; x < kSide; ++x) {
            const auto at = static_cast<std::size_t>(y * kSide + x);
            const float distance = (std::sqrt(field[at]) - 1) * pen.radius;  // pixels outside the stroke's edge
            const float cover = std::clamp(0.5f - distance / pen.softness, 0.0f, 1.0f);
            if (cover <= 0) {
                pixels[at] = std::byte{0};
                continue;
            }
            const float light = pen.brightness * (1 - 0.5f * pen.fading + fade_x * static_cast<float>(x - kSide / 2) +
                                                  fade_y * static_cast<float>(y - kSide / 2));
            // The sum of two uniforms approximates a normal; 2.45 scales its variance of 1/6 to 1.
            const float noise = 1 + pen.grain * 2.45f * (rng.uniform() + rng.uniform() - 1);
            const float value = 255 * cover * std::min(light * noise, 1.0f);
            pixels[at] = static_cast<std::byte>(static_cast<int>(value + 0.5f));
        }
    }
}

class SynthDigits final : public Dataset {
  public:
    SynthDigits(Split split, std::int64_t count, std::uint64_t seed) : split_(split), count_(count), seed_(seed) {}

    std::int64_t size() const override { return count_; }

    void read(std::int64_t index, Sample& sample) const override {
        check_index(index);
        Rng choice = stage_rng(kChoice, split_, index, seed_);
        const std::size_t label = choice.below(10);
        const glyphs::Style& style = glyphs::kDigits[label][choice.below(glyphs::kStyles)];
        sample.storage.resize(kPixels);
        draw(style, index, sample.storage.data());
        sample.set_raw(sample.storage.bytes(), kSide, kSide, 1);
        sample.label = static_cast<std::int64_t>(label);
    }

    std::string key(std::int64_t index) const override { return fmt::format("{}/{}", split_name(split_), index); }
    std::span<const std::string> classes() const override { return classes_; }
    std::string_view format() const override { return "synth:digits"; }
    std::string path() const override { return fmt::format("synth:digits?count={}&seed={}", count_, seed_); }
    std::int64_t bytes() const override { return count_ * static_cast<std::int64_t>(kPixels); }

  private:
    void draw(const glyphs::Style& style, std::int64_t index, std::byte* pixels) const {
        Rng pen_rng = stage_rng(kPen, split_, index, seed_);
        const Pen pen(pen_rng);
        Rng rng = stage_rng(kShape, split_, index, seed_);
        const float shake = rng.uniform(1.0f, 4.5f);
        const Warp warp(rng, rng.uniform(2.0f, 8.0f));
        Segments segments;
        for (const glyphs::Stroke& stroke : style.strokes) {
            if (stroke.count > 0) {
                flatten(stroke, shake, warp, rng, segments);
            }
        }
        slant(segments.all(), rng);
        place(segments.all(), pen.reach() + 1, rng);
        Field field;
        field.fill(1e6f);
        for (const Segment& segment : segments.all()) {
            ink_segment(segment, pen, field);
        }
        Rng grain = stage_rng(kGrain, split_, index, seed_);
        develop(field, pen, grain, pixels);
    }

    const Split split_;
    const std::int64_t count_;
    const std::uint64_t seed_;
    const std::vector<std::string> classes_ = numbered_classes(10);
};

}  // namespace

std::unique_ptr<Dataset> make_synth_digits(Split split, std::int64_t count, std::uint64_t seed) {
    if (count < 1) {
        throw InvalidArgument(
            {.where = "synth:digits", .expected = "a count of at least 1", .got = std::to_string(count)});
    }
    return std::make_unique<SynthDigits>(split, count, seed);
}

}  // namespace stoker
