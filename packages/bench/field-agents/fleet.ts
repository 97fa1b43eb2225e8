/** Two scripted engines behind a gateway, as the tasks of agents need them. */
import { ScriptedEngine, type EngineFleet } from './scripted-engine.ts'
import type { Fault, ServedRequest } from './served-request.ts'
import { fileOf, nextStep, stepsDone } from './task.ts'

/** Faults of a task, by the number of steps that are done. */
export type FaultPlan = Readonly<Record<number, readonly Fault[]>>

export interface Fleet {
  readonly engines: readonly ScriptedEngine[]
  readonly served: readonly ServedRequest[]
  /** The task with this file fails by the plan; each fault comes once, at whichever engine is asked. */
  fail(file: string, plan: FaultPlan): void
  close(): void
}

export async function openFleet(names: readonly string[]): Promise<Fleet> {
  const engines: ScriptedEngine[] = []
  const served: ServedRequest[] = []
  const planned = new Map<string, Map<number, Fault[]>>()
  const shared: EngineFleet = {
    served,
    cachedAt: (prompt) => Object.fromEntries(engines.map(({ name, cache }) => [name, cache.cachedTokens(prompt)])),
    answer: nextStep,
    fault: (body) =>
      planned
        .get(fileOf(body) ?? '')
        ?.get(stepsDone(body))
        ?.shift() ?? null,
  }
  for (const name of names) engines.push(await ScriptedEngine.open(name, shared))
  return {
    engines,
    served,
    fail: (file, plan) =>
      void planned.set(file, new Map(Object.entries(plan).map(([done, faults]) => [Number(done), [...faults]]))),
    close: () => engines.forEach((engine) => engine.close()),
  }
}
