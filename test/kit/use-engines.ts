/** Fake engines that are closed after the test that opened them. */
import { afterEach } from 'vitest'
import type { Routes } from './fake-answer.ts'
import { FakeEngine, type FakeEngineOptions } from './fake-engine.ts'

export type OpenEngine = (routes?: Routes, options?: FakeEngineOptions) => Promise<FakeEngine>

/** Call it once at the top of a file; every engine has the routes of `common` too. */
export function useEngines(common: Routes = {}): OpenEngine {
  const engines: FakeEngine[] = []
  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine.close()
  })
  return async (routes, options) => {
    const engine = await FakeEngine.open({ ...common, ...routes }, options)
    engines.push(engine)
    return engine
  }
}
