// Package rollout plans a bundle on a cluster and carries the plan out.
//
// It knows which components are to be there, in which order, with which
// values; who may work on an instance (a coordination.k8s.io Lease); what was
// done to it so far (one record a Secret); and what to do when something
// fails. How a chart becomes objects, how Helm keeps its own history and when
// an object is ready is the business of whoever implements [Charts]; what a
// bundle is, of waybill/bundle. Where the bundle came from and who signed it
// is told to it in a [Source] and written into the record.
//
// An attempt goes through these states, and each has one next step:
//
//	(no record) ── Install ──► running ──► done
//	                              │ ├────► failed        run Install again
//	                              │ └────► interrupted   run Install again
//	                              └ killed, the lease runs out:
//	                                the next Install calls it dead, marks
//	                                the Helm revisions it left pending as
//	                                failed and goes on
//
// Try [NewRunner] and [Runner.Plan] first: Plan reads and never writes.
package rollout
