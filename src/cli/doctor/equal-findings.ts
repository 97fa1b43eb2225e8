/** Groups equal findings of several engines, so that a fleet of equal engines is read once. */
import type { Finding, Subject } from './finding.ts'

/** Findings that exactly these engines share. */
export interface EngineGroup {
  readonly engines: readonly Subject[]
  readonly findings: readonly Finding[]
}

interface GroupedFindings {
  readonly groups: readonly EngineGroup[]
  /** Findings of a subject that are in no group. */
  own(subject: Subject): readonly Finding[]
}

/** @param isVisible whether a finding is in the report */
export function groupFindings(subjects: readonly Subject[], isVisible: (finding: Finding) => boolean): GroupedFindings {
  const owners = new Map<string, Subject[]>()
  const engines = subjects.filter(({ kind }) => kind === 'engine')
  for (const engine of engines)
    for (const key of new Set(engine.findings.filter(isVisible).map(keyOf)))
      owners.set(key, [...(owners.get(key) ?? []), engine])
  const isShared = (subject: Subject, finding: Finding) =>
    subject.kind === 'engine' && (owners.get(keyOf(finding))?.length ?? 0) > 1
  const groups = new Map<string, { readonly engines: readonly Subject[]; readonly findings: Finding[] }>()
  for (const engine of engines) {
    for (const finding of engine.findings.filter(isVisible)) {
      const sharing = owners.get(keyOf(finding))!
      if (sharing.length === 1 || sharing[0] !== engine) continue
      const name = sharing.map((one) => engines.indexOf(one)).join()
      const group = groups.get(name) ?? { engines: sharing, findings: [] }
      groups.set(name, group)
      group.findings.push(finding)
    }
  }
  return {
    groups: [...groups.values()],
    own: (subject) => subject.findings.filter((finding) => isVisible(finding) && !isShared(subject, finding)),
  }
}

const keyOf = ({ check, mark, message, costs, next }: Finding): string =>
  JSON.stringify([check, mark, message, costs, next])
