// All positions in the pattern that a name may have reached are followed at once, so no name takes long.
#include "stoker/io/remote/remote_pattern.h"

#include <algorithm>

namespace stoker {

RemotePattern::RemotePattern(std::string_view text) {
    while (!text.empty()) {
        const std::size_t stars = std::min(text.find_first_not_of('*'), text.size());
        if (stars == 0) {
            steps_.push_back({Kind::letter, text.front()});
            text.remove_prefix(1);
            continue;
        }
        text.remove_prefix(stars);
        const bool at_start = steps_.empty() || (steps_.back().kind == Kind::letter && steps_.back().letter == '/');
        if (stars > 1 && at_start && text.starts_with('/')) {
            steps_.push_back({Kind::folders});
            text.remove_prefix(1);
        } else {
            steps_.push_back({stars > 1 ? Kind::any : Kind::part});
        }
    }
}

bool RemotePattern::has_folders() const {
    return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
        return step.kind == Kind::any || step.kind == Kind::folders || step.letter == '/';
    });
}

bool RemotePattern::matches(std::string_view name) const {
    std::vector<bool> at(steps_.size() + 1);  // the steps before this one fit the name so far
    const auto enter = [&](std::vector<bool>& to, std::size_t step) {
        to[step] = true;
        while (step < steps_.size() && steps_[step].kind != Kind::letter) {
            to[++step] = true;  // each kind of star may stand for nothing
        }
    };
    enter(at, 0);
    for (const char c : name) {
        std::vector<bool> next(at.size());
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const Step& step = steps_[i];
            if (!at[i]) {
                continue;
            }
            if (step.kind == Kind::letter && step.letter == c) {
                enter(next, i + 1);
            } else if (step.kind == Kind::any || (step.kind == Kind::part && c != '/')) {
                enter(next, i);
            } else if (step.kind == Kind::folders) {
                next[i] = true;
                if (c == '/') {
                    enter(next, i);
                }
            }
        }
        at = std::move(next);
    }
    return at.back();
}

}  // namespace stoker
