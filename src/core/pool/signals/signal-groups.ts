/** Groups of signals that are computed together. */
import type { Signal } from '../../routing/policy.ts'
import type { EngineRef } from '../booking-ref.ts'
import { fillItls } from './decode-load.ts'
import { fillDelays } from './delay-signals.ts'
import { writeEstimatorSignals } from './estimator-signals.ts'
import { type PromptQuery, writePromptSignals } from './prompt-signals.ts'

export interface SignalGroup {
  /** Groups whose signals it reads. They read no others. */
  readonly reads: readonly SignalGroup[]
  /** Writes the signals into the rows of the engines. */
  readonly write: (query: PromptQuery, engines: readonly EngineRef[]) => void
}

const load: SignalGroup = {
  reads: [],
  write: ({ sources, now }, engines) => sources.load.writeSignals(engines, now),
}

const arrivals: SignalGroup = {
  reads: [],
  write: ({ sources, now }, engines) => sources.load.writeArrivals(engines, now),
}

const prompt: SignalGroup = { reads: [], write: writePromptSignals }

const estimators: SignalGroup = { reads: [], write: writeEstimatorSignals }

const delays: SignalGroup = {
  reads: [load, prompt, estimators],
  write: (query, engines) => {
    for (const engine of engines) fillDelays(query, engine)
  },
}

const itls: SignalGroup = {
  reads: [load, prompt, estimators],
  write: (query, engines) => {
    for (const engine of engines) fillItls(query, engine)
  },
}

/** In the order in which they are written. */
const GROUPS: readonly SignalGroup[] = [load, arrivals, prompt, estimators, delays, itls]

/** Group that writes each signal. */
const GROUP_OF: Readonly<Record<Signal, SignalGroup>> = {
  requests: load,
  turn: load,
  recentWork: load,
  recentNewTokens: load,
  foreignRequests: load,
  rttS: load,
  arrivals,
  newActiveBlocks: prompt,
  liveTokens: prompt,
  liveSharers: prompt,
  cachedTokens: prompt,
  slowTokens: prompt,
  lookupTokens: prompt,
  activeBlocks: estimators,
  queuedPrefills: estimators,
  usualQueuedPrefills: estimators,
  queuedPrefillTokens: estimators,
  queuedWork: estimators,
  queuedPrefillS: estimators,
  placeWaitS: estimators,
  capacityBlocks: estimators,
  costModel: estimators,
  confidence: estimators,
  warmth: estimators,
  adapterFit: estimators,
  delayS: delays,
  laterS: delays,
  itlS: itls,
  addedItlS: itls,
}

/** By the list of a policy, which never changes: a decision looks through no names. */
const groupsByList = new WeakMap<readonly Signal[], readonly SignalGroup[]>()

/** Groups that write these signals, and those that they read, in the order in which they are written. */
export function groupsOf(signals: readonly Signal[]): readonly SignalGroup[] {
  let groups = groupsByList.get(signals)
  if (groups === undefined) {
    const wanted = signals.flatMap((signal) => [GROUP_OF[signal], ...GROUP_OF[signal].reads])
    groups = GROUPS.filter((group) => wanted.includes(group))
    groupsByList.set(signals, groups)
  }
  return groups
}
