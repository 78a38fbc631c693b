// The edit distance by dynamic programming over three rows.
#include "stoker/recipe/suggest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace stoker {
namespace {

constexpr std::size_t kLongestName = 64;  // longer text is not a mistyped name

// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`, no character being
// edited twice (optimal string alignment distance).
int edit_distance(std::string_view a, std::string_view b) {
    // Row i holds the distances from a[0, i) to every b[0, j).
    std::vector<int> before(b.size() + 1);
    std::vector<int> above(b.size() + 1);
    std::vector<int> row(b.size() + 1);
    std::iota(above.begin(), above.end(), 0);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = static_cast<int>(i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const int substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before.swap(above);
        above.swap(row);
    }
    return above[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> names) {
    if (name.size() > kLongestName) {
        return {};
    }
    std::string nearest;
    int best = static_cast<int>(kLongestName);
    for (const std::string& candidate : names) {
        const int distance = edit_distance(name, candidate);
        const int allowed = std::max(1, static_cast<int>(candidate.size()) / 3);
        if (distance <= allowed && distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    return nearest;
}

}  // namespace stoker
