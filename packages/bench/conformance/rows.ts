/** All rows, in the order in which they run. */
import type { Row } from './row.ts'
import { adapterRow } from './rows/adapters.ts'
import { agentRows } from './rows/agents.ts'
import { busyRows } from './rows/busy.ts'
import { clientFaultRows } from './rows/client-faults.ts'
import { clientRows } from './rows/clients.ts'
import { continuationRows } from './rows/continuation.ts'
import { controllerRows } from './rows/controller.ts'
import { corsRow } from './rows/cors.ts'
import { nixlRecording, responseRow, splitRows } from './rows/disaggregation.ts'
import { splitFaultRows } from './rows/disagg-faults.ts'
import { splitEndpointRow } from './rows/split-endpoints.ts'
import { decodeReuseRows } from './rows/decode-reuse.ts'
import { encodeRow } from './rows/encode.ts'
import { eppRows } from './rows/epp.ts'
import { eppVllmRow } from './rows/epp-vllm.ts'
import { eventRows } from './rows/events.ts'
import { eventsFeedback } from './rows/events-feedback.ts'
import { engineDies, faultRows, hostileRow } from './rows/faults.ts'
import { feedbackRows } from './rows/feedback.ts'
import { foreignRows } from './rows/foreign.ts'
import { forwardingRows } from './rows/forwarding.ts'
import { harnessRows, vllmBenchRow } from './rows/harnesses.ts'
import { inferencePoolRow } from './rows/inference-pool.ts'
import { objectivesRow } from './rows/objectives.ts'
import { kubernetesRows } from './rows/kubernetes.ts'
import { llamaRows } from './rows/llama.ts'
import { lmcacheRows } from './rows/lmcache.ts'
import { lmcacheRecording } from './rows/record-lmcache.ts'
import { recordings } from './rows/recordings.ts'
import { ranksRows } from './rows/ranks.ts'
import { reportRow } from './rows/reports.ts'
import { isolatesRow, regionAnswers, regionRows } from './rows/regions.ts'
import { predictionRows } from './rows/predictions.ts'
import { overloadRow } from './rows/overload.ts'
import { policyRow, routingRows } from './rows/routing.ts'
import { stoppedCoreRow } from './rows/stopped-core.ts'
import { poolPauseRow } from './rows/pool-pause.ts'
import { wakeRow } from './rows/wake.ts'
import { scaleFromZeroRow } from './rows/scale-from-zero.ts'
import { streamRows } from './rows/streams.ts'
import { tokenRows } from './rows/tokens.ts'
import { ttftRows } from './rows/ttft.ts'
import { earDoctor, uploadRecording, uploadRows } from './rows/uploads.ts'

export const rows: readonly Row[] = [
  ...recordings,
  ...streamRows,
  ...tokenRows,
  ...eventRows,
  ...gatewayRows('node'),
  ...routingRows,
  ...gatewayRows('worker'),
  regionAnswers('node'),
  regionAnswers('worker'),
  isolatesRow,
  hostileRow('node'),
  hostileRow('worker'),
  reportRow,
  vllmBenchRow,
  wakeRow('node'),
  poolPauseRow('node'),
  wakeRow('worker'),
  poolPauseRow('worker'),
  ...controllerRows,
  engineDies('node'),
  // Rows that kill engines come last, because the gateway does not use a recovered engine at once.
  nixlRecording,
  splitEndpointRow('node'),
  ...splitRows('node'),
  ...splitFaultRows('node'),
  splitEndpointRow('worker'),
  ...splitRows('worker'),
  ...splitFaultRows('worker'),
  responseRow('node'),
  responseRow('worker'),
  ...decodeReuseRows,
  encodeRow('node'),
  encodeRow('worker'),
  lmcacheRecording,
  ...lmcacheRows('node'),
  ...lmcacheRows('worker'),
  uploadRecording,
  earDoctor,
  ...uploadRows('node'),
  corsRow('node'),
  ...uploadRows('worker'),
  corsRow('worker'),
  ...feedbackRows,
  eventsFeedback('node'),
  eventsFeedback('worker'),
  ...ranksRows,
  adapterRow('node'),
  ...ttftRows,
  ...predictionRows,
  overloadRow,
  eppVllmRow,
  ...regionRows('node'),
  ...regionRows('worker'),
  stoppedCoreRow,
  ...continuationRows('node'),
  ...continuationRows('worker'),
  policyRow,
  ...llamaRows,
  ...kubernetesRows,
  inferencePoolRow,
  objectivesRow,
  scaleFromZeroRow,
  ...eppRows,
  ...agentRows,
  ...clientFaultRows,
  ...harnessRows,
]

function gatewayRows(kind: 'node' | 'worker'): readonly Row[] {
  return [...forwardingRows(kind), ...clientRows(kind), ...faultRows(kind), ...busyRows(kind), ...foreignRows(kind)]
}
