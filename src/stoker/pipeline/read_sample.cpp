#include "stoker/pipeline/read_sample.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>

#include "stoker/base/error.h"
#include "stoker/base/map_damage.h"
#include "stoker/base/memory_limit.h"
#include "stoker/pipeline/transforms/transform.h"

namespace stoker {

void read_sample(const Dataset& dataset, std::int64_t index, Sample& sample, const FrameWindow& wanted) {
    const auto reset = [&](FieldValue& value) {
        value.set_raw({}, 0, 0, 0);
        value.wanted = wanted;
    };
    reset(sample);
    sample.label = -1;
    std::ranges::for_each(sample.fields, reset);
    dataset.read(index, sample);
}

void rethrow_located(const Dataset& dataset, std::int64_t index) {
    check_maps();
    const DataPlace place{.path = dataset.path(), .key = key_or_index(dataset, index), .index = index};
    try {
        throw;
    } catch (const SizeMismatch& error) {
        const DataError full = error.located(place);
        throw SizeMismatch(full.place(), full.info());
    } catch (const DataError& error) {
        throw error.located(place);
    } catch (const Unsupported& error) {  // unsupported is this sample, not the data set
        throw DataError(place, {.where = "sample", .expected = "a sample that can be read", .got = error.what()});
    } catch (const MemoryError& error) {  // depends on the machine, so replacing the sample would change the order
        throw error.within(fmt::format("{}: {}", dataset.path(), place.key));
    } catch (const Error&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) {
        throw DataError(place, {.where = "data set", .expected = "a sample that can be read", .got = error.what()});
    }
}

}  // namespace stoker
