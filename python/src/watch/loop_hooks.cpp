// Hooks of the training loop beside its batches: outermost modules, backward passes, optimizers, and functions whose
// whole time is of one phase. What is rare is done by functions of Python, which hooks.py and modules.py give them.
#include "python/src/watch/hook.h"

namespace stoker::watch {

namespace {

namespace forward_calls {
enum Call : std::size_t { Called, Passed };
}
namespace backward_calls {
enum Call : std::size_t { Trains, Stepped };
}

// 1 or 0: whether the module is one that trains, with gradients. Negative: Python has an error.
int is_learning(PyObject* module) {
    PyObject* training = PyObject_GetAttr(module, torch.training);
    const int trains = training == nullptr ? -1 : PyObject_IsTrue(training);
    Py_XDECREF(training);
    return trains == 1 ? ask(torch.with_grad) : trains;
}

// 1 or 0: whether the module has trained before, and the step is one of training.
int trains_on(const StepState* steps, PyObject* module) {
    if (!steps->training) {
        return 0;
    }
    PyObject* key = PyLong_FromVoidPtr(module);
    const int known = key == nullptr ? -1 : PySet_Contains(steps->trained, key);
    Py_XDECREF(key);
    return known;
}

// An outermost module is called: 1 or 0, whether it learns. Negative: Python has an error.
int note_call(const Hook* hook, PyObject* module) {
    const int learning = is_learning(module);
    if (learning < 0) {
        return learning;
    }
    const int known = learning == 1 ? trains_on(hook->steps(), module) : 0;
    if (known != 0) {
        return known < 0 ? known : learning;
    }
    PyObject* done = PyObject_CallFunctionObjArgs(hook->calls[forward_calls::Called], module,
                                                  learning == 1 ? Py_True : Py_False, nullptr);
    Py_XDECREF(done);
    return done == nullptr ? -1 : learning;
}

// What a module inherits from the classes that follow the hook's among its own, as super() finds it: a class beside the
// hook's may have a call, and what stands in nn.Module may be the program's by now. Null: Python has an error.
PyObject* inherited_call(Hook* hook, Arguments arguments, std::size_t count) {
    auto* owner = reinterpret_cast<PyTypeObject*>(hook->owner);
    PyTypeObject* type = PyVectorcall_NARGS(count) > 0 ? Py_TYPE(arguments[0]) : nullptr;
    if (type == nullptr || !PyType_IsSubtype(type, owner)) {
        return PyObject_GetAttr(torch.module, torch.call);
    }
    if (hook->above == nullptr || hook->last != type) {
        PyObject* above =
            PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), owner, type, nullptr);
        if (above == nullptr) {
            return nullptr;
        }
        PyObject* before = hook->above;
        hook->above = above;  // it keeps the type
        hook->last = type;
        Py_XDECREF(before);
    }
    return PyObject_GetAttr(hook->above, torch.call);
}

PyObject* call_module(Hook* hook, Arguments arguments, std::size_t count, PyObject* names) {
    if (hook->owner == nullptr) {
        return call_original(hook, arguments, count, names);
    }
    PyObject* call = inherited_call(hook, arguments, count);
    if (call == nullptr) {
        return nullptr;
    }
    PyObject* result = PyObject_Vectorcall(call, arguments, count, names);
    Py_DECREF(call);
    return result;
}

// In a single step the watch looks into forward passes: whether `around` is to be told of this one.
bool looks_into(const HookFlags* flags) {
    return flags->around != nullptr && flags->around != Py_None;
}

// It begins (Py_True), or it has ended with `result`, whose reference is taken over. Null: Python has an error.
PyObject* tell_around(const Hook* hook, PyObject* module, PyObject* begins, PyObject* result) {
    PyObject* around = Py_NewRef(hook->flags->around);
    const std::array<PyObject*, 2> told = {module, begins};
    result = tell(around, result, told.data(), told.size());
    Py_DECREF(around);
    return result;
}

// Whether it is a plain tensor without gradients, such as a loss that is only printed.
bool leads_to_no_loss(PyObject* result) {
    if (!is(result, torch.tensor) || ask(torch.modes) != 0) {
        PyErr_Clear();
        return false;
    }
    PyObject* gradient = PyObject_GetAttr(result, torch.requires_grad);
    const int needs = gradient == nullptr ? -1 : PyObject_IsTrue(gradient);
    Py_XDECREF(gradient);
    PyErr_Clear();
    return needs == 0;
}

// A forward pass that learns. The loss follows it, and the backward pass: it stays in its phase.
PyObject* call_learning(Hook* hook, Arguments arguments, std::size_t count, PyObject* names, int before) {
    HookFlags* flags = hook->flags;
    const bool looks = looks_into(flags);
    PyObject* result = looks ? tell_around(hook, arguments[0], Py_True, Py_NewRef(Py_None)) : nullptr;
    if (!looks || result != nullptr) {
        Py_XDECREF(result);
        flags->inside = 1;
        result = call_module(hook, arguments, count, names);
        flags->inside = 0;
    }
    if (looks && looks_into(flags)) {
        result = tell_around(hook, arguments[0], Py_False, result);
    }
    if (result == nullptr || leads_to_no_loss(result)) {
        hook->account()->enter(before);
    }
    return result;
}

}  // namespace

PyObject* call_phase(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    Account* account = hook->account();
    if (account->phase == hook->number || !hook->flags->here()) {
        return call_original(hook, arguments, count, names);
    }
    const int before = account->enter(hook->number);
    PyObject* result = call_original(hook, arguments, count, names);
    account->enter(before);
    return result;
}

PyObject* call_forward(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    Account* account = hook->account();
    HookFlags* flags = hook->flags;
    // A forward pass within the backward pass computes again what checkpointing has dropped. A module that is called
    // while the loop waits for a batch, such as a transform of torchvision, belongs to the loader.
    const bool elsewhere = account->phase == Backward || account->phase == Wait;
    if (flags->inside || elsewhere || PyVectorcall_NARGS(count) < 1 || !flags->here()) {
        return call_module(hook, arguments, count, names);
    }
    const int learning = note_call(hook, arguments[0]);
    if (learning < 0 && !fail(hook)) {
        return nullptr;
    }
    const int before = account->enter(Forward);
    if (learning == 1) {
        return call_learning(hook, arguments, count, names, before);
    }
    flags->inside = 1;
    PyObject* result = call_module(hook, arguments, count, names);
    flags->inside = 0;
    account->enter(before);
    return tell(hook->calls[forward_calls::Passed], result, nullptr, 0);
}

PyObject* call_backward(PyObject* self, Arguments arguments, std::size_t count, PyObject* names) {
    Hook* hook = hook_of(self);
    Account* account = hook->account();
    HookFlags* flags = hook->flags;
    if (account->phase == Backward || !flags->here()) {
        return call_original(hook, arguments, count, names);
    }
    const bool inside = flags->inside != 0;  // a model may compute gradients, such as forces, in its forward pass
    if (!inside && !hook->steps()->training) {
        PyObject* done = PyObject_CallNoArgs(hook->calls[backward_calls::Trains]);
        Py_XDECREF(done);
        if (done == nullptr && !fail(hook)) {
            return nullptr;
        }
    }
    hook->steps()->backwards += hook->number;
    const int before = account->enter(Backward);
    PyObject* result = call_original(hook, arguments, count, names);
    account->enter(inside ? before : flags->base);
    if (!flags->stepped_in_backward) {
        return result;
    }
    flags->stepped_in_backward = 0;
    return tell(hook->calls[backward_calls::Stepped], result, nullptr, 0);
}

// Takes an optimizer, the arguments of its step, of which it is the first, and those with names. calls: returns both
// with another closure, or None.
PyObject* call_optimizer_begin(PyObject* self, Arguments arguments, std::size_t count, PyObject*) {
    Hook* hook = hook_of(self);
    HookFlags* flags = hook->flags;
    if (flags->here()) {
        const int before = hook->account()->enter(Optimizer);
        if (before != Optimizer) {
            flags->in_backward = before == Backward;  // else it belongs to another optimizer
        }
        if (!flags->in_backward) {
            flags->base = Optimizer;
        }
        flags->begun = 1;
        const bool whole = PyVectorcall_NARGS(count) == 3 && PyTuple_Check(arguments[1]) && PyDict_Check(arguments[2]);
        if (whole && (PyTuple_Size(arguments[1]) > 1 || PyDict_Size(arguments[2]) > 0)) {
            return PyObject_Vectorcall(hook->calls[0], arguments, 3, nullptr);
        }
    }
    Py_RETURN_NONE;
}

// calls: takes the optimizer after a step that is more than one to be written down, also where another thread made it.
PyObject* call_optimizer_end(PyObject* self, Arguments arguments, std::size_t count, PyObject*) {
    Hook* hook = hook_of(self);
    HookFlags* flags = hook->flags;
    StepState* steps = hook->steps();
    if (PyVectorcall_NARGS(count) < 1) {
        return PyErr_Format(PyExc_TypeError, "expected an optimizer, found no argument");
    }
    const bool here = flags->here();
    if (here && !flags->begun) {
        Py_RETURN_NONE;  // a class calls the step of its base, which has hooks of its own and was counted
    }
    if (here) {
        flags->begun = 0;
    }
    if (here && !flags->in_backward) {
        flags->base = Unmeasured;
    }
    const bool usual = here && flags->steady && !flags->in_backward && steps->training && !steps->in_parts;
    if (usual && refers_to(steps->optimizer, arguments[0])) {
        if (!steps->close(nullptr) && !fail(hook)) {
            return nullptr;
        }
        Py_RETURN_NONE;
    }
    return call_with(hook->calls[0], arguments[0]);
}

}  // namespace stoker::watch
