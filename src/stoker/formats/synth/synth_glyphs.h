// The shapes of the ten digits in five styles each, as strokes through a few control points. Data only;
// synth_digits.cpp distorts and inks them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

namespace stoker::glyphs {

// Control points in percent of the glyph's height, x to the right, y downwards.
struct Point {
    int x;
    int y;
};

inline constexpr std::size_t kMaxPoints = 16;

struct Stroke {
    bool smooth = false;  // a Catmull-Rom spline through the points instead of straight lines
    bool closed = false;
    std::size_t count = 0;
    std::array<Point, kMaxPoints> points{};
};

constexpr Stroke make_stroke(bool smooth, bool closed, std::initializer_list<Point> points) {
    Stroke stroke{.smooth = smooth, .closed = closed, .count = points.size()};
    std::copy(points.begin(), points.end(), stroke.points.begin());
    return stroke;
}
constexpr Stroke curve(std::initializer_list<Point> points) {
    return make_stroke(true, false, points);
}
constexpr Stroke loop(std::initializer_list<Point> points) {
    return make_stroke(true, true, points);
}
constexpr Stroke lines(std::initializer_list<Point> points) {
    return make_stroke(false, false, points);
}

inline constexpr std::size_t kMaxStrokes = 3;

struct Style {
    std::array<Stroke, kMaxStrokes> strokes{};  // unused ones are empty
};

inline constexpr std::size_t kStyles = 5;
using Digit = std::array<Style, kStyles>;

// One style after the other, lined up by hand.
// clang-format off
inline constexpr std::array<Digit, 10> kDigits = {{
    // 0: egg, narrow, round, begun and ended at the top without meeting, with crossing ends
    Digit{{{{loop({{50, 0}, {28, 13}, {20, 48}, {29, 86}, {50, 100}, {72, 86}, {80, 50}, {72, 13}})}},
           {{loop({{54, 0}, {38, 16}, {32, 52}, {38, 88}, {50, 100}, {64, 84}, {70, 46}, {66, 12}})}},
           {{loop({{50, 2}, {20, 18}, {8, 50}, {20, 84}, {50, 98}, {80, 84}, {92, 50}, {80, 18}})}},
           {{curve({{54, 4}, {32, 10}, {20, 42}, {25, 82}, {48, 100}, {74, 82}, {80, 40}, {68, 10}, {50, 2}})}},
           {{curve({{40, 2}, {24, 22}, {18, 58}, {32, 94}, {58, 97}, {76, 72}, {78, 32}, {60, 6}, {34, 10}})}}}},
    // 1: a bare line (twice, once bowed), with a flag, with flag and base, with a short flag
    Digit{{{{lines({{50, 0}, {50, 100}})}},
           {{curve({{54, 0}, {51, 35}, {50, 65}, {46, 100}})}},
           {{lines({{32, 22}, {52, 0}, {52, 100}})}},
           {{lines({{32, 22}, {52, 0}, {52, 100}}), lines({{28, 100}, {76, 100}})}},
           {{curve({{40, 12}, {48, 7}, {53, 0}}), lines({{53, 0}, {50, 100}})}}}},
    // 2: straight base (twice, once upright), loop, wavy base, swan neck
    Digit{{{{curve({{20, 24}, {34, 4}, {60, 1}, {76, 22}, {66, 48}, {42, 76}, {18, 99}}),
             lines({{18, 99}, {80, 98}})}},
           {{curve({{26, 20}, {46, 1}, {70, 8}, {74, 32}, {58, 62}, {28, 97}}), lines({{28, 97}, {78, 97}})}},
           {{curve({{22, 20}, {44, 1}, {70, 12}, {70, 42}, {46, 76}, {24, 94}, {15, 86}, {26, 78},
                    {52, 90}, {84, 96}})}},
           {{curve({{24, 18}, {48, 0}, {74, 14}, {66, 46}, {38, 80}, {16, 97}}),
             curve({{16, 97}, {36, 88}, {58, 98}, {84, 90}})}},
           {{curve({{28, 30}, {26, 10}, {50, 0}, {72, 12}, {70, 38}, {50, 70}, {26, 88}, {14, 97}}),
             lines({{14, 97}, {74, 100}})}}}},
    // 3: two arcs with a cusp (twice), flat top, a small loop in the waist, wide lower bow
    Digit{{{{curve({{24, 13}, {48, 0}, {72, 14}, {66, 38}, {42, 47}}),
             curve({{42, 47}, {72, 54}, {79, 78}, {54, 100}, {22, 88}})}},
           {{curve({{20, 8}, {46, 0}, {68, 14}, {60, 36}, {36, 46}}),
             curve({{36, 46}, {68, 50}, {76, 74}, {56, 96}, {18, 98}})}},
           {{lines({{24, 2}, {74, 2}, {44, 40}}), curve({{44, 40}, {74, 52}, {78, 80}, {52, 100}, {20, 88}})}},
           {{curve({{24, 14}, {48, 0}, {72, 15}, {60, 40}, {38, 50}, {38, 42}, {64, 50}, {76, 72}, {62, 95}, {36, 99},
                    {18, 86}})}},
           {{curve({{30, 14}, {50, 2}, {66, 14}, {58, 34}, {42, 41}}),
             curve({{42, 41}, {78, 46}, {86, 76}, {54, 100}, {14, 86}})}}}},
    // 4: open with straight arms, closed, open with a round bowl, closed in one stroke, open and wide
    Digit{{{{lines({{28, 0}, {20, 54}, {80, 54}}), lines({{68, 14}, {66, 100}})}},
           {{lines({{62, 0}, {14, 66}, {86, 66}}), lines({{62, 0}, {62, 100}})}},
           {{curve({{26, 2}, {20, 38}, {34, 54}, {58, 50}, {72, 44}}), lines({{76, 4}, {68, 100}})}},
           {{lines({{84, 60}, {18, 60}, {66, 0}, {60, 100}})}},
           {{lines({{36, 0}, {12, 56}, {86, 50}}), lines({{72, 20}, {58, 100}})}}}},
    // 5: bar and stem (twice, once angular), in one sweep, with a bar set apart, with a short bar
    Digit{{{{lines({{74, 2}, {32, 2}, {28, 44}}),
             curve({{28, 44}, {52, 36}, {76, 54}, {72, 86}, {46, 100}, {18, 88}})}},
           {{lines({{78, 0}, {28, 3}, {24, 42}}), curve({{24, 42}, {56, 44}, {74, 66}, {60, 92}, {18, 98}})}},
           {{curve({{78, 3}, {46, 4}, {32, 22}, {42, 42}, {66, 58}, {68, 86}, {44, 100}, {18, 90}})}},
           {{lines({{34, 8}, {27, 46}}), curve({{27, 46}, {54, 40}, {74, 60}, {66, 90}, {40, 100}, {20, 92}}),
             lines({{36, 4}, {84, 0}})}},
           {{lines({{60, 0}, {34, 2}, {30, 40}}), curve({{30, 40}, {58, 38}, {76, 64}, {58, 96}, {22, 94}})}}}},
    // 6: bowed stem, straight stem, curled top, tall with a small bowl, round
    Digit{{{{curve({{66, 0}, {36, 24}, {22, 62}, {34, 96}, {60, 98}, {76, 76}, {62, 55}, {38, 60}, {25, 76}})}},
           {{curve({{48, 0}, {32, 36}, {23, 70}, {38, 98}, {64, 95}, {73, 72}, {54, 56}, {28, 72}})}},
           {{curve({{74, 13}, {57, 0}, {34, 18}, {20, 58}, {32, 94}, {58, 99}, {77, 76}, {64, 54},
                    {40, 56}, {23, 74}})}},
           {{curve({{54, 0}, {36, 30}, {26, 70}, {36, 97}, {56, 98}, {66, 82}, {54, 68}, {34, 76}, {28, 86}})}},
           {{curve({{62, 2}, {30, 24}, {14, 60}, {26, 94}, {56, 100}, {82, 80}, {72, 52}, {42, 46}, {18, 62}})}}}},
    // 7: plain, with a bar, with a serif, bowed, bowed with serif and bar
    Digit{{{{lines({{20, 4}, {78, 2}, {42, 100}})}},
           {{lines({{20, 4}, {78, 2}, {44, 100}}), lines({{36, 50}, {78, 47}})}},
           {{lines({{20, 17}, {22, 3}, {78, 2}, {48, 100}})}},
           {{curve({{18, 8}, {46, 6}, {78, 2}}), curve({{78, 2}, {58, 40}, {48, 72}, {44, 100}})}},
           {{curve({{18, 16}, {26, 3}, {50, 8}, {80, 1}}), curve({{80, 1}, {58, 46}, {50, 100}}),
             lines({{34, 54}, {76, 50}})}}}},
    // 8: a figure of eight (twice, once slim), two rings, open at the top, small head
    Digit{{{{loop({{49, 47}, {28, 30}, {31, 7}, {52, 0}, {71, 9}, {69, 30}, {49, 47}, {29, 66}, {25, 90}, {50, 100},
                   {75, 90}, {71, 66}})}},
           {{loop({{50, 48}, {36, 30}, {38, 8}, {54, 0}, {68, 10}, {66, 30}, {50, 48}, {34, 68}, {34, 90}, {50, 100},
                   {66, 90}, {66, 68}})}},
           {{loop({{50, 0}, {30, 10}, {30, 36}, {50, 47}, {70, 36}, {70, 10}}),
             loop({{50, 47}, {26, 60}, {26, 88}, {50, 100}, {74, 88}, {74, 60}})}},
           {{curve({{72, 10}, {48, 0}, {27, 14}, {40, 42}, {70, 66}, {66, 93}, {40, 99}, {24, 80}, {44, 52}, {66, 30},
                    {75, 12}})}},
           {{loop({{50, 40}, {35, 26}, {38, 6}, {54, 0}, {67, 8}, {66, 24}, {50, 40}, {24, 62}, {20, 88}, {48, 100},
                   {76, 88}, {76, 60}})}}}},
    // 9: straight stem, curled tail, slanted, in one sweep, small head on a bowed stem
    Digit{{{{loop({{72, 26}, {56, 2}, {32, 6}, {23, 30}, {38, 50}, {62, 44}}), lines({{73, 14}, {70, 100}})}},
           {{curve({{74, 16}, {56, 1}, {32, 8}, {24, 30}, {38, 49}, {60, 43}, {74, 20}}),
             curve({{74, 18}, {77, 58}, {66, 92}, {42, 100}, {22, 88}})}},
           {{curve({{76, 12}, {56, 1}, {32, 12}, {26, 34}, {42, 48}, {64, 36}, {77, 12}}),
             lines({{77, 12}, {46, 100}})}},
           {{curve({{76, 20}, {58, 1}, {32, 8}, {26, 34}, {44, 49}, {66, 36}, {76, 16}, {74, 52},
                    {66, 78}, {58, 100}})}},
           {{loop({{68, 20}, {54, 2}, {36, 6}, {32, 26}, {46, 39}, {62, 34}}),
             curve({{69, 10}, {71, 42}, {66, 74}, {62, 100}})}}}},
}};
// clang-format on

}  // namespace stoker::glyphs
