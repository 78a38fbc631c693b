#include "stoker/tune/contender.h"

#include <chrono>

namespace stoker {

Measurement Contender::measure(double seconds) {
    Measurement found;
    try {
        found = trial().ask("measure", seconds);
    } catch (const TrialFailed&) {
        close();  // its child has ended; the next measurement may succeed
        throw;
    }
    seconds_ += found.seconds;
    wait_seconds_ += std::chrono::duration<double>(found.host.times[static_cast<std::size_t>(Phase::wait)]).count();
    return found;
}

PairedResult compare(Contender& a, Contender& b, double seconds, const PairedOptions& options,
                     const std::function<bool()>& out_of_time) {
    const auto rate = [seconds](Contender& contender) { return contender.measure(seconds).rate(); };
    try {
        return compare_paired([&] { return rate(a); }, [&] { return rate(b); }, options, out_of_time);
    } catch (const TrialOutOfMemory&) {
        if (out_of_time()) {
            throw;
        }
        a.close();
        b.close();
    }
    const auto alone = [&rate](Contender& contender, Contender& other) {
        other.close();
        return rate(contender);
    };
    return compare_paired([&] { return alone(a, b); }, [&] { return alone(b, a); }, options, out_of_time);
}

}  // namespace stoker
