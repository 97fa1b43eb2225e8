/** Results of commands of an operator: drain of an engine, pause of a pool. */
import * as z from 'zod/mini'
import { PAUSE_MODES } from '../../engines/engine-type.ts'
import type { EnginePause } from '../../origin/pause/pool-pause.ts'
import { component, described, flag, milliseconds, text } from './fields.ts'
import type { View, ViewOf } from './view.ts'

export const drain = component(
  'Drain',
  z.object({
    cluster: text,
    region_cluster: z.optional(described('Cluster of the engine at the gateway of its region.', text)),
    engine: text,
    draining: flag,
    move_at: z.optional(milliseconds),
  }),
)

export type DrainView = View<typeof drain>

const pausedEngine = z.object({ cluster: text, engine: text, state: text, weight_version: z.nullable(text) })

export type PausedEngineView = ViewOf<typeof pausedEngine, EnginePause>

const pausedEngines = component('PausedEngines', z.array(pausedEngine))

export const pause = component(
  'Pause',
  z.object({ pool: text, mode: z.enum(PAUSE_MODES), paused: flag, engines: pausedEngines }),
)

export type PauseView = View<typeof pause>

export const resume = component('Resume', z.object({ pool: text, resumed: flag, engines: pausedEngines }))

export type ResumeView = View<typeof resume>
