import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodeCostModelAt } from '../../../../src/core/latency/decode-cost-model.ts'
import { DEFAULT_PROFILE, profile } from '../../../../src/core/latency/profiles.ts'
import { EngineEstimators } from '../../../../src/core/pool/estimators/engine-estimators.ts'
import { HardwareClass } from '../../../../src/core/pool/estimators/hardware-class.ts'
import { presentItlS } from '../../../../src/core/pool/estimators/present-itl.ts'
import { ActiveBlocks } from '../../../../src/core/prefix-index/active-blocks.ts'
import { PrefixIndex } from '../../../../src/core/prefix-index/prefix-index.ts'

const BLOCK_TOKENS = 64

it('the step time of an engine grows with its streams and with the KV blocks that they read', () => {
  const load = fc.record({
    streams: fc.nat(200),
    outputBlocks: fc.nat(20_000),
    logPace: fc.double({ min: -1, max: 1, noNaN: true }),
  })
  fc.assert(
    fc.property(load, ({ streams, outputBlocks, logPace }) => {
      const hardwareClass = new HardwareClass()
      const estimators = new EngineEstimators(0, { hardwareClass, prior: profile(DEFAULT_PROFILE)!, warmSince: 0 })
      for (const fitter of [estimators.decodeFitter, hardwareClass.decodeFitter]) fitter.restore(logPace)
      estimators.requests = streams
      const index = new PrefixIndex(1)
      index.addEngine()
      const active = new ActiveBlocks(index)
      active.output(active.add(0, { blocks: new Uint32Array(), blockCount: 0, partial: false }, true), outputBlocks)
      const { baseS, perRequestS, perBlockS } = decodeCostModelAt(logPace, BLOCK_TOKENS)
      expect(presentItlS(estimators, { active, blockTokens: BLOCK_TOKENS }, 0)).toBeCloseTo(
        baseS + streams * perRequestS + outputBlocks * perBlockS,
        9,
      )
    }),
  )
})
