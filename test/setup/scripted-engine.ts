/** Runs the raw engine outside workerd, because tests inside it cannot listen. */
import type { TestProject } from 'vitest/node'
import '../kit/scripted-engine-context.ts'
import { startScriptedEngine } from '../kit/scripted-engine.ts'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const engine = await startScriptedEngine()
  project.provide('rawEngine', { engineUrl: engine.engineUrl, controlUrl: engine.controlUrl })
  return () => engine.close()
}
