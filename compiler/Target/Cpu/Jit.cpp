// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// One ORC session for the process; each object gets a library of its own in it, so that
// kernels of one name do not clash and each can be unloaded.
#include "compiler/Target/Cpu/Jit.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

using namespace llvm;
using namespace llvm::orc;

namespace tilery::cpu {
namespace {

// The libm and libc functions that compiled code may call. A table rather than a search in
// the process: an object that needs more is refused, not bound to something unexpected.
void addRuntimeSymbols(LLJIT &jit, SymbolMap &symbols) {
  auto add = [&](StringRef name, auto *address) {
    symbols[jit.mangleAndIntern(name)] = {ExecutorAddr::fromPtr(address),
                                          JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  };
#define TILERY_LIBM(name)                                                                     \
  add(#name "f", static_cast<float (*)(float)>(&::name##f));                                  \
  add(#name, static_cast<double (*)(double)>(&::name));
  TILERY_LIBM(exp) TILERY_LIBM(exp2) TILERY_LIBM(expm1) TILERY_LIBM(log) TILERY_LIBM(log2)
  TILERY_LIBM(log10) TILERY_LIBM(log1p) TILERY_LIBM(sin) TILERY_LIBM(cos) TILERY_LIBM(tan)
  TILERY_LIBM(asin) TILERY_LIBM(acos) TILERY_LIBM(atan) TILERY_LIBM(sinh) TILERY_LIBM(cosh)
  TILERY_LIBM(tanh) TILERY_LIBM(asinh) TILERY_LIBM(acosh) TILERY_LIBM(atanh) TILERY_LIBM(erf)
  TILERY_LIBM(erfc) TILERY_LIBM(cbrt) TILERY_LIBM(round) TILERY_LIBM(roundeven)
  TILERY_LIBM(trunc) TILERY_LIBM(floor) TILERY_LIBM(ceil) TILERY_LIBM(rint)
  TILERY_LIBM(tgamma) TILERY_LIBM(lgamma)
#undef TILERY_LIBM
#define TILERY_LIBM(name)                                                                     \
  add(#name "f", static_cast<float (*)(float, float)>(&::name##f));                           \
  add(#name, static_cast<double (*)(double, double)>(&::name));
  TILERY_LIBM(pow) TILERY_LIBM(atan2) TILERY_LIBM(fmod) TILERY_LIBM(fmin) TILERY_LIBM(fmax)
#undef TILERY_LIBM
  add("memcpy", &::memcpy);
  add("memmove", &::memmove);
  add("memset", &::memset);
}

// The last cause that linking reported. Lookups link on the calling thread.
std::string &lastReport() {
  static thread_local std::string report;
  return report;
}

Error describe(Error error) {
  std::string text = toString(std::move(error));
  if (!lastReport().empty())
    text += " (" + std::exchange(lastReport(), {}) + ")";
  return createStringError(text);
}

struct Session {
  std::unique_ptr<LLJIT> jit;
  JITDylib *runtime = nullptr;
  std::atomic<uint64_t> count{0};
};

Expected<std::unique_ptr<Session>> createSession() {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto session = std::make_unique<Session>();
  auto jit = LLJITBuilder()
                 .setObjectLinkingLayerCreator(
                     [](ExecutionSession &es) -> Expected<std::unique_ptr<ObjectLayer>> {
                       return std::make_unique<ObjectLinkingLayer>(es);
                     })
                 .setLinkProcessSymbolsByDefault(false)
                 .setPlatformSetUp(setUpInactivePlatform)
                 .create();
  if (!jit)
    return jit.takeError();
  session->jit = std::move(*jit);
  // Linking reports the cause (a missing symbol) here, and only the consequence to callers.
  session->jit->getExecutionSession().setErrorReporter(
      [](Error error) { lastReport() = toString(std::move(error)); });
  session->runtime = &session->jit->getExecutionSession().createBareJITDylib("runtime");
  SymbolMap symbols;
  addRuntimeSymbols(*session->jit, symbols);
  if (Error error = session->runtime->define(absoluteSymbols(std::move(symbols))))
    return std::move(error);
  return session;
}

// Never destroyed: kernels may run while static destructors do.
Expected<Session *> session() {
  static auto *state = new Expected<std::unique_ptr<Session>>(createSession());
  if (!*state)
    return createStringError("cannot start the just-in-time linker");
  return state->get().get();
}

} // namespace

struct LoadedObject::Impl {
  Session *session = nullptr;
  JITDylib *library = nullptr;
};

LoadedObject::LoadedObject(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

LoadedObject::~LoadedObject() {
  if (impl)
    consumeError(
        impl->session->jit->getExecutionSession().removeJITDylib(*impl->library));
}

Expected<std::unique_ptr<LoadedObject>> LoadedObject::load(StringRef object) {
  auto owner = session();
  if (!owner)
    return owner.takeError();
  auto library =
      (*owner)->jit->createJITDylib("object." + std::to_string((*owner)->count.fetch_add(1)));
  if (!library)
    return library.takeError();
  library->addToLinkOrder(*(*owner)->runtime);
  auto impl = std::make_unique<Impl>();
  impl->session = *owner;
  impl->library = &*library;
  std::unique_ptr<LoadedObject> loaded(new LoadedObject(std::move(impl)));
  if (Error error = (*owner)->jit->addObjectFile(
          *library, MemoryBuffer::getMemBufferCopy(object, "kernel")))
    return std::move(error);
  return loaded;
}

Expected<tilery_kernel_entry> LoadedObject::entry(StringRef name) const {
  auto address = impl->session->jit->lookup(*impl->library, name);
  if (!address)
    return describe(address.takeError());
  return address->toPtr<tilery_kernel_entry>();
}

} // namespace tilery::cpu
