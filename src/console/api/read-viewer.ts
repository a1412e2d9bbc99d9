/** Who looks, and what the page may offer. */
import { maySeePrices, type Viewer } from '../access/viewer.ts';
import { type ConsoleApiDeps, noQuery, readCall, sourcesFor } from './console-call.ts';

export interface ViewerAnswer extends Viewer {
  readonly seesPrices: boolean;
  readonly flowNames: readonly string[];
  readonly sourceNames: readonly string[];
  readonly offers: { readonly doctor: boolean; readonly story: boolean; readonly intakes: boolean };
}

export const viewerCall = ({ settings, doctor, story }: ConsoleApiDeps) =>
  readCall('/api/viewer', noQuery, async ({ viewer }): Promise<ViewerAnswer> => {
    const { name, role, flows } = viewer;
    const flowNames = settings.flows.map((flow) => flow.name).filter((flow) => flows === 'all' || flows.includes(flow));
    return {
      name,
      role,
      flows,
      seesPrices: maySeePrices(viewer),
      flowNames,
      sourceNames: sourcesFor(viewer, settings),
      offers: {
        doctor: doctor !== undefined,
        story: story !== undefined && flows === 'all',
        intakes: flows === 'all' && settings.intakes.length > 0,
      },
    };
  });
