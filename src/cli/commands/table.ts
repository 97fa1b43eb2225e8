import { bridge } from './bridge.ts'
import { calibrate } from './calibrate.ts'
import { check } from './check.ts'
import type { Command } from './command.ts'
import { demo } from './demo.ts'
import { doctor } from './doctor.ts'
import { fleet } from './fleet.ts'
import { key } from './key.ts'
import { load } from './load.ts'
import { replay } from './replay.ts'
import { serve } from './serve.ts'
import { top } from './top.ts'
import { vocab } from './vocab.ts'

/** All subcommands in the order of the help. */
export const commands: readonly Command[] = [
  serve,
  check,
  doctor,
  demo,
  fleet,
  top,
  replay,
  calibrate,
  load,
  bridge,
  vocab,
  key,
]
