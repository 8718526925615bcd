#include "compiler/Conversion/CoreToVector/Lowering.h"
namespace tilery::vec {
#define P(name, T) LogicalResult Lowering::name(T op) { return op->emitError("not yet"); }
P(lowerReduce, core::ReduceOp) P(lowerScan, core::ScanOp) P(lowerDot, core::DotOp)
P(lowerReshape, core::ReshapeOp) P(lowerJoin, core::JoinOp) P(lowerSplit, core::SplitOp)
P(lowerCat, core::CatOp) P(lowerGather, core::GatherOp)
P(lowerAtomicRMW, core::AtomicRMWOp) P(lowerAtomicCAS, core::AtomicCASOp)
bool Lowering::isFusedLoad(core::LoadOp op) { return false; }
}
