/** Runs the raw engine beside tests that live inside workerd, where nothing can listen. */
import type { TestProject } from 'vitest/node'
import '../contracts/raw-engine-context.ts'
import { startRawEngine } from './raw-engine.ts'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const engine = await startRawEngine()
  project.provide('rawEngine', { engineUrl: engine.engineUrl, controlUrl: engine.controlUrl })
  return () => engine.close()
}
