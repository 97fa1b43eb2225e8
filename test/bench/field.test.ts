import { describe, expect, it } from 'vitest'
import { fieldCases } from '../../packages/bench/field/cases/all.ts'
import { fixtureFor } from '../../packages/bench/field/fixture.ts'
import { cellsOf, covers, matrix } from '../../packages/bench/field/matrix.ts'
import { ENGINE_TYPES } from '../../src/engines/engine-registry.ts'
import { endpointOf, protocols } from '../../src/protocols/protocols.ts'

const axes = { protocols: protocols.map(({ name }) => name), engines: ENGINE_TYPES.map(({ name }) => name) }
const cells = cellsOf(matrix, axes)

describe('the matrix of field cases', () => {
  it('the matrix of field cases has a state for every case, protocol, engine type and runtime, and a reason where none runs', () => {
    expect(cells).toHaveLength(matrix.cases.length * axes.protocols.length * axes.engines.length * 2)
    expect(cells.filter((cell) => cell.state === 'does not apply' && cell.reason.length < 10)).toEqual([])
  })

  it('the matrix of field cases names only protocols and engine types that exist', () => {
    const exclusions = [...matrix.missing, ...matrix.cases.flatMap(({ except = [] }) => except)]
    const named = [...matrix.cases, ...exclusions]
    expect(named.flatMap(({ protocols: some = [] }) => some).filter((one) => !axes.protocols.includes(one))).toEqual([])
    const kinds: readonly string[] = axes.engines
    expect(named.flatMap(({ engines = [] }) => engines).filter((one) => !kinds.includes(one))).toEqual([])
  })

  it('the matrix of field cases has no exclusion without effect', () => {
    for (const { except = [], ...one } of matrix.cases)
      for (const exclusion of except)
        expect(
          cellsOf({ ...matrix, cases: [one] }, axes).some(
            (cell) => covers(exclusion, cell) && cell.state !== 'does not apply',
          ),
        ).toBe(true)
  })

  it('the matrix of field cases has code for each case that runs', () => {
    const due = new Set(cells.filter(({ state }) => state === 'runs').map(({ id }) => id))
    expect([...due].filter((id) => !(id in fieldCases))).toEqual([])
    expect(Object.keys(fieldCases).filter((id) => !due.has(id))).toEqual([])
  })

  it.each(axes.protocols)(
    'the matrix of field cases has requests of %s for an endpoint of that protocol',
    (protocol) => {
      const { path, stream } = fixtureFor(protocol)
      const endpoint = endpointOf(path)
      expect(endpoint?.protocol.name).toBe(protocol)
      expect(stream !== null).toBe(endpoint?.streams)
    },
  )
})
