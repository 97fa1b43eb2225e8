/** Routes that a scripted engine of each type answers besides those of inference. */
import { engineTypeOf } from '../../../src/engines/engine-registry.ts'
import type { EngineTypeName } from '../../../src/engines/engine-type.ts'
import type { Routes } from '../../../test/kit/fake-answer.ts'

/** Health is good, and other GET routes do not exist. */
export function engineRoutes(type: string): Routes {
  const paths = engineTypeOf(type as EngineTypeName).health.map(({ path }) => path)
  return {
    ...Object.fromEntries([...paths, '/health'].map((path) => [`GET ${path}`, { body: { version: '1.0.0' } }])),
    'GET *': { status: 404, body: { detail: 'Not Found' } },
  }
}
