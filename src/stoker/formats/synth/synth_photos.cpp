// Draws row by row: a gradient with noise of several octaves as background, then the class's shapes as layers, whose
// edges are signed distances, then grain. Every stage has its own random generator.
#include "stoker/formats/synth/synth_photos.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/base/rng.h"
#include "stoker/formats/synth/vector_length.h"

namespace stoker {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

// Labels in the order of kSynthPhotoClasses.
enum class Kind : int { checker, circles, dots, rings, stars, stripes, triangles, waves };

// The `op` of each stage's random generator, far from those of the pipeline's ops as in synth_digits.cpp.
enum Stage : std::uint16_t { kScene = 0xD200, kLayers, kGrain, kLight, kWarmth = kLight + 16, kTint = kWarmth + 16 };

struct Subject {
    std::int64_t index = 0;
    int label = 0;
    std::uint64_t seed = 0;

    Rng rng(int stage) const {
        return Rng({.seed = seed,
                    .sample = static_cast<std::uint64_t>(index),
                    .occurrence = static_cast<std::uint16_t>(label),
                    .op = static_cast<std::uint16_t>(stage)});
    }
};

struct Color {
    float r = 0;
    float g = 0;
    float b = 0;
};

Color mix(Color a, Color b, float t) {
    return {a.r + t * (b.r - a.r), a.g + t * (b.g - a.g), a.b + t * (b.b - a.b)};
}

// A colour of luminance `light` and random hue.
Color tinted(float light, float strength, Rng& rng) {
    const Color c{rng.uniform(-strength, strength), rng.uniform(-strength, strength), rng.uniform(-strength, strength)};
    const float luminance = 0.299f * c.r + 0.587f * c.g + 0.114f * c.b;
    return {light + c.r - luminance, light + c.g - luminance, light + c.b - luminance};
}

// Value noise: random values on lattices, interpolated smoothly. The cell size halves with each octave.
class Noise {
  public:
    // Octaves with cells of `cell`, cell / 2, ... down to `finest` pixels. Each has `persistence` times the amplitude
    // of the one before.
    Noise(int width, int height, int cell, int finest, float amplitude, float persistence, const Subject& subject,
          int stage)
        : width_(width) {
        for (; cell >= finest; cell /= 2, amplitude *= persistence) {
            octaves_.push_back(make_octave(width, height, cell, amplitude, subject.rng(stage++)));
        }
    }

    // Adds row `y` to `out`, one value a pixel.
    void add_row(int y, std::span<float> out) {
        for (const Octave& octave : octaves_) {
            blend_rows(octave, y);
            const float step = 1.0f / static_cast<float>(octave.cell);
            for (int left = 0, i = 0; left < width_; left += octave.cell, ++i) {
                const float from = line_[static_cast<std::size_t>(i)];
                const float rise = line_[static_cast<std::size_t>(i) + 1] - from;
                const int count = std::min(octave.cell, width_ - left);
                float* to = out.data() + left;
                for (int x = 0; x < count; ++x) {
                    to[x] += from + rise * smooth(static_cast<float>(x) * step);
                }
            }
        }
    }

  private:
    struct Octave {
        int cell = 0;
        int columns = 0;
        std::vector<float> lattice;  // (rows, columns)
    };

    static float smooth(float t) { return t * t * (3 - 2 * t); }

    static Octave make_octave(int width, int height, int cell, float amplitude, Rng rng) {
        Octave octave{.cell = cell, .columns = width / cell + 2, .lattice = {}};
        octave.lattice.resize(static_cast<std::size_t>(octave.columns) * static_cast<std::size_t>(height / cell + 2));
        for (float& value : octave.lattice) {
            value = rng.uniform(-amplitude, amplitude);
        }
        return octave;
    }

    // Interpolates the lattice's values at height y.
    void blend_rows(const Octave& octave, int y) {
        const auto columns = static_cast<std::size_t>(octave.columns);
        const float* above = octave.lattice.data() + static_cast<std::size_t>(y / octave.cell) * columns;
        const float* below = above + columns;
        const float t = smooth(static_cast<float>(y % octave.cell) / static_cast<float>(octave.cell));
        line_.resize(std::max(line_.size(), columns));
        for (std::size_t i = 0; i < columns; ++i) {
            line_[i] = above[i] + t * (below[i] - above[i]);
        }
    }

    int width_;
    std::vector<Octave> octaves_;
    std::vector<float> line_;
};

// One shape, or one pattern over the whole image. Lengths are in pixels.
struct Layer {
    Box box{};    // bounding box of the ink
    float x = 0;  // centre
    float y = 0;
    float cos = 1;  // rotation
    float sin = 0;
    float size = 1;      // outer radius of a shape, period of a pattern
    float share = 0.5f;  // inked fraction of the size: a ring's or stripe's width, a dot's radius
    float bend = 0;      // waves: amplitude
    float length = 1;    // waves: wavelength
    float tilt_x = 0;    // patterns: perspective, change of scale per pixel
    float tilt_y = 0;
    float softness = 1;  // pixels over which the edge fades
    Color color{};
    float shade = 0;  // how much lighter one side is than the middle
};

// Distance from v to the nearest multiple of `period`.
float to_multiple(float v, float period) {
    return std::abs(v - period * std::nearbyint(v / period));
}

// The k-th smallest of the distances of (u, v) to the sides of a regular polygon, positive inside. k = 0 gives the
// polygon; k = 1 with five sides gives the star formed by the sides' extensions.
template <std::size_t kSides>
float polygon(float u, float v, float apothem, std::size_t k) {
    static_assert(kSides == 3 || kSides == 5);
    constexpr float kCos = kSides == 3 ? -0.5f : 0.309016994f;  // of the angle from one side to the next
    constexpr float kSin = kSides == 3 ? 0.866025404f : 0.951056516f;
    std::array<float, kSides> inside{};
    float x = 0;
    float y = 1;
    for (float& distance : inside) {
        distance = apothem - (x * u + y * v);
        const float turned = kCos * x - kSin * y;
        y = kSin * x + kCos * y;
        x = turned;
    }
    std::nth_element(inside.begin(), inside.begin() + static_cast<std::ptrdiff_t>(k), inside.end());
    return inside[k];
}

// Signed distance to the edge of the layer's ink at (u, v) in its own frame, positive inside.
float depth(Kind kind, const Layer& layer, float u, float v) {
    const float period = layer.size;
    switch (kind) {
        case Kind::circles:
            return layer.size - vector_length(u, v);
        case Kind::rings: {
            const float half = 0.5f * layer.share * layer.size;
            return half - std::abs(vector_length(u, v) - layer.size + half);
        }
        case Kind::triangles:
            return polygon<3>(u, v, 0.5f * layer.size, 0);
        case Kind::stars:
            return polygon<5>(u, v, 0.309f * layer.size, 1);  // cos 72 degrees, so that the tips reach `size`
        case Kind::stripes:
            return 0.5f * layer.share * period - to_multiple(v, period);
        case Kind::waves:
            return 0.5f * layer.share * period -
                   to_multiple(v + layer.bend * std::sin(2 * kPi * u / layer.length), period);
        case Kind::dots:
            return layer.share * period - vector_length(to_multiple(u, period), to_multiple(v, period));
        case Kind::checker: {
            const float a = to_multiple(u, 2 * period) - 0.5f * period;
            const float b = to_multiple(v, 2 * period) - 0.5f * period;
            return std::copysign(std::min(std::abs(a), std::abs(b)), a * b);
        }
    }
    return -1;
}

bool is_pattern(Kind kind) {
    return kind == Kind::stripes || kind == Kind::waves || kind == Kind::dots || kind == Kind::checker;
}

// Chooses an ink that contrasts with a background of luminance `ground`.
void choose_ink(Layer& layer, float ground, Rng& rng) {
    const float contrast = rng.uniform(65.0f, 120.0f);
    const float light = ground + (ground < rng.uniform(90.0f, 160.0f) ? contrast : -contrast);
    layer.color = tinted(std::clamp(light, 15.0f, 240.0f), 50, rng);
    layer.shade = rng.uniform(-25.0f, 25.0f);
    layer.softness = rng.uniform(1.0f, 2.2f);
}

Layer make_pattern(Kind kind, int width, int height, float ground, Rng& rng) {
    const float side = static_cast<float>(std::min(width, height));
    const float angle = rng.uniform(0.0f, 2 * kPi);
    Layer layer{.box = {.height = height, .width = width},
                .x = 0.5f * static_cast<float>(width),
                .y = 0.5f * static_cast<float>(height),
                .cos = std::cos(angle),
                .sin = std::sin(angle),
                .size = side * rng.uniform(0.07f, 0.16f),
                .share = kind == Kind::dots ? rng.uniform(0.2f, 0.36f) : rng.uniform(0.35f, 0.65f)};
    layer.bend = layer.size * rng.uniform(0.5f, 1.0f);
    layer.length = layer.size * rng.uniform(2.5f, 5.0f);
    layer.tilt_x = rng.uniform(-0.4f, 0.4f) / side;
    layer.tilt_y = rng.uniform(-0.4f, 0.4f) / side;
    choose_ink(layer, ground, rng);
    return layer;
}

// Three to nine shapes. A position that would hide much of an earlier shape is drawn again, a few times.
std::vector<Layer> scatter_shapes(int width, int height, float ground, Rng& rng) {
    const float side = static_cast<float>(std::min(width, height));
    std::vector<Layer> layers;
    const int wanted = 3 + static_cast<int>(rng.below(7));
    for (int tries = 0; tries < 6 * wanted && static_cast<int>(layers.size()) < wanted; ++tries) {
        const float angle = rng.uniform(0.0f, 2 * kPi);
        const float radius = side * rng.uniform(0.09f, 0.22f);
        Layer layer{.x = rng.uniform(0.6f * radius, static_cast<float>(width) - 0.6f * radius),
                    .y = rng.uniform(0.6f * radius, static_cast<float>(height) - 0.6f * radius),
                    .cos = std::cos(angle),
                    .sin = std::sin(angle),
                    .size = radius,
                    .share = rng.uniform(0.16f, 0.38f)};
        choose_ink(layer, ground, rng);
        const bool hides = std::any_of(layers.begin(), layers.end(), [&](const Layer& other) {
            return vector_length(layer.x - other.x, layer.y - other.y) < 0.85f * (layer.size + other.size);
        });
        if (hides) {
            continue;
        }
        const float reach = radius + layer.softness;
        layer.box.top = std::max(static_cast<int>(layer.y - reach), 0);
        layer.box.left = std::max(static_cast<int>(layer.x - reach), 0);
        layer.box.height = std::min(static_cast<int>(layer.y + reach) + 2, height) - layer.box.top;
        layer.box.width = std::min(static_cast<int>(layer.x + reach) + 2, width) - layer.box.left;
        layers.push_back(layer);
    }
    return layers;
}

// The background: a gradient of three colours from one side of the image to the other, with noise.
class Ground {
  public:
    Ground(int width, int height, const Subject& subject, Rng& rng)
        : width_(width),
          height_(height),
          light_(rng.uniform(60.0f, 190.0f)),
          noise_(width, height, 96, 3, rng.uniform(18.0f, 36.0f), rng.uniform(0.68f, 0.84f), subject, kLight),
          warmth_(width, height, 80, 40, 16, 0.6f, subject, kWarmth),
          tint_(width, height, 80, 40, 12, 0.6f, subject, kTint) {
        for (Color& color : colors_) {
            color = tinted(std::clamp(light_ + rng.uniform(-45.0f, 45.0f), 30.0f, 225.0f), 40, rng);
        }
        const float angle = rng.uniform(0.0f, 2 * kPi);
        const float span = static_cast<float>(width + height);
        slope_x_ = std::cos(angle) / span;
        slope_y_ = std::sin(angle) / span;
        vignette_ = rng.uniform(0.0f, 45.0f);
    }

    float light() const { return light_; }

    // Writes row `y`: its colours, and the luminance noise in them, which the layers above share.
    void row(int y, std::span<Color> colors, std::span<float> noise) {
        warm_row_.assign(colors.size(), 0.0f);
        tint_row_.assign(colors.size(), 0.0f);
        std::fill(noise.begin(), noise.end(), 0.0f);
        noise_.add_row(y, noise);
        warmth_.add_row(y, warm_row_);
        tint_.add_row(y, tint_row_);
        const float v = static_cast<float>(y) - 0.5f * static_cast<float>(height_);
        const float scale = 4.0f / static_cast<float>(width_ * width_ + height_ * height_);
        for (std::size_t x = 0; x < colors.size(); ++x) {
            const float u = static_cast<float>(x) - 0.5f * static_cast<float>(width_);
            const float t = std::clamp(2 * (slope_x_ * u + slope_y_ * v), -1.0f, 1.0f);
            const Color base = t < 0 ? mix(colors_[1], colors_[0], -t) : mix(colors_[1], colors_[2], t);
            const float light = noise[x] - vignette_ * scale * (u * u + v * v);
            colors[x] = {base.r + light + warm_row_[x], base.g + light + tint_row_[x], base.b + light - warm_row_[x]};
        }
    }

  private:
    int width_;
    int height_;
    float light_;
    Noise noise_;
    Noise warmth_;
    Noise tint_;
    std::array<Color, 3> colors_;
    float slope_x_ = 0;
    float slope_y_ = 0;
    float vignette_ = 0;
    std::vector<float> warm_row_;
    std::vector<float> tint_row_;
};

// Paints one layer over row `y`. The ink gets most of the background's noise, as if the same light fell on both.
void paint_layer(Kind kind, const Layer& layer, int y, std::span<Color> colors, std::span<const float> noise) {
    if (y < layer.box.top || y >= layer.box.top + layer.box.height) {
        return;
    }
    const float dy = static_cast<float>(y) - layer.y;
    for (int x = layer.box.left; x < layer.box.left + layer.box.width; ++x) {
        const auto at = static_cast<std::size_t>(x);
        const float dx = static_cast<float>(x) - layer.x;
        const float zoom = 1 / (1 + layer.tilt_x * dx + layer.tilt_y * dy);
        const float u = (layer.cos * dx + layer.sin * dy) * zoom;
        const float v = (layer.cos * dy - layer.sin * dx) * zoom;
        const float cover = std::clamp(depth(kind, layer, u, v) / layer.softness + 0.5f, 0.0f, 1.0f);
        if (cover > 0) {
            const float side = is_pattern(kind) ? 0 : v / layer.size;
            const float light = layer.shade * side + 0.7f * noise[at];
            const Color ink{layer.color.r + light, layer.color.g + light, layer.color.b + light};
            colors[at] = mix(colors[at], ink, cover);
        }
    }
}

// Adds the sensor's grain and rounds. One random number serves a pixel: 16 bits for the noise that all channels share,
// and 5 bits for the noise of each channel.
void develop_row(std::span<const Color> colors, float grain, Rng& rng, std::uint8_t* out) {
    const auto channel = [](float value, float noise) {
        return static_cast<std::uint8_t>(std::clamp(value + noise, 0.0f, 255.0f) + 0.5f);
    };
    for (std::size_t x = 0; x < colors.size(); ++x) {
        const std::uint32_t bits = rng.next();
        const float both = (static_cast<float>(bits & 0xFF) + static_cast<float>(bits >> 8 & 0xFF)) / 255.0f - 1;
        const auto own = [bits](int shift) { return static_cast<float>(bits >> shift & 0x1F) / 31.0f - 0.5f; };
        out[3 * x] = channel(colors[x].r, grain * (both + own(16)));
        out[3 * x + 1] = channel(colors[x].g, grain * (both + own(21)));
        out[3 * x + 2] = channel(colors[x].b, grain * (both + own(26)));
    }
}

}  // namespace

void draw_synth_photo(std::int64_t index, int label, std::uint64_t seed, Image& image) {
    if (label < 0 || label >= static_cast<int>(kSynthPhotoClasses.size())) {
        throw InvalidArgument({.where = "synth photos",
                               .expected = fmt::format("a label in [0, {})", kSynthPhotoClasses.size()),
                               .got = std::to_string(label)});
    }
    const auto kind = static_cast<Kind>(label);
    const Subject subject{.index = index, .label = label, .seed = seed};
    Rng scene = subject.rng(kScene);
    const int width = 320 + static_cast<int>(scene.below(321));
    const int height = 320 + static_cast<int>(scene.below(321));
    const float grain = scene.uniform(10.0f, 26.0f);
    Ground ground(width, height, subject, scene);
    Rng draws = subject.rng(kLayers);
    const std::vector<Layer> layers = is_pattern(kind)
                                          ? std::vector{make_pattern(kind, width, height, ground.light(), draws)}
                                          : scatter_shapes(width, height, ground.light(), draws);
    Rng grain_draws = subject.rng(kGrain);
    image.reset(height, width, 3);
    std::vector<Color> colors(static_cast<std::size_t>(width));
    std::vector<float> noise(colors.size());
    for (int y = 0; y < height; ++y) {
        ground.row(y, colors, noise);
        for (const Layer& layer : layers) {
            paint_layer(kind, layer, y, colors, noise);
        }
        develop_row(colors, grain, grain_draws, image.view().row(y));
    }
}

}  // namespace stoker
