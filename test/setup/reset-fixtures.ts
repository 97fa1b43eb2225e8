/** Runs before each test file: files share a process, and random values must not depend on earlier files. */
import { resetAdmissions } from '../kit/pool-fixtures.ts'

resetAdmissions()
