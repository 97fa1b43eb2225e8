/** Determines the type of an engine whose metrics do not show it, by its model list and its other routes. */
import { DETECTION_PATHS, detectEngineType } from '../../engines/engine-registry.ts'
import type { EngineType } from '../../engines/engine-type.ts'
import { modelCards } from '../../engines/model-list.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import { readRoute, type RouteAnswer } from '../engine-route.ts'

const DETECTION_MS = 1_000

/** null: the engine did not answer, so another probe must try again. */
export async function detectByRoutes(
  origin: Origin,
  target: EngineTarget,
  { metrics, server }: { readonly metrics: string | null; readonly server: string | null },
): Promise<EngineType | null> {
  const models = await answerOf(origin, target, '/v1/models')
  if (models === null) return null
  const evidence = { metrics, server: server ?? models.server, owners: ownersIn(models) }
  const bySign = detectEngineType(evidence)
  if (bySign !== detectEngineType({})) return bySign
  const routes: Record<string, string> = {}
  for (const path of [...DETECTION_PATHS, '/version']) {
    const answer = await answerOf(origin, target, path)
    if (answer === null) return null
    if (answer.status === 200) routes[path] = answer.text
  }
  return detectEngineType({ ...evidence, routes })
}

async function answerOf(origin: Origin, target: EngineTarget, path: string): Promise<RouteAnswer | null> {
  try {
    return await readRoute(origin, target, path, { limitMs: DETECTION_MS })
  } catch {
    return null
  }
}

function ownersIn({ status, text }: RouteAnswer): readonly string[] {
  return status === 200 ? (modelCards(jsonOf(text)) ?? []).flatMap(({ ownedBy }) => ownedBy ?? []) : []
}

/** null: no JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
