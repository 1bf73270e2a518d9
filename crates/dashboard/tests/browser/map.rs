//! The map: a cell for each cluster, for mouse and keyboard.

use std::time::Duration;

use fantoccini::Locator;
use fantoccini::actions::{InputSource, MouseActions, PointerAction};
use fantoccini::elements::Element;
use fantoccini::key::Key;
use testkit::READ;

use crate::browser::{Page, visit};
use crate::fleet::{Fleet, Outcome, id};

async fn canvas(page: &Page, number: usize) -> Element {
    let found = page.browser.find_all(Locator::Css("#map canvas")).await.unwrap();
    found.into_iter().nth(number).unwrap()
}

/// The size of a cell.
async fn cell(page: &Page) -> i64 {
    let size = page.run("return map.groups[0].size", vec![]).await;
    size.as_i64().unwrap()
}

/// Moves the mouse to a cell of the first row, counted from the left.
async fn point_at(page: &Page, canvas: &Element, column: i64) {
    let size = cell(page).await;
    let (_, _, width, height) = canvas.rectangle().await.unwrap();
    let action = PointerAction::MoveToElement {
        element: canvas.clone(),
        duration: Some(Duration::ZERO),
        x: column as f64 * size as f64 + size as f64 / 2.0 - width / 2.0,
        y: size as f64 / 2.0 - height / 2.0,
    };
    let mouse = MouseActions::new("mouse".to_owned()).then(action);
    page.browser.perform_actions(mouse).await.unwrap();
}

async fn drawn(page: &Page) {
    page.wait("the map", async || page.count("#map[data-drawn='12']").await == 1)
        .await;
}

#[test]
fn the_map_has_a_coloured_cell_for_every_cluster() {
    let fleet = Fleet::small();
    fleet.report(&id(0), Outcome::Ready);
    fleet.report(&id(2), Outcome::Fails("podinfo", "InstallFailed", "no such chart"));
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        drawn(page).await;
        let titles = page.text_of("#map").await;
        for title in [
            "dev 3 never",
            "prod 1 failing, 4 never, 1 converged",
            "qa 1 never",
            "uat 2 never",
        ] {
            assert!(titles.contains(title), "{title} in {titles}");
        }
        let colours = "const group = map.groups.find((group) => group.name === 'prod');
            const wanted = document.createElement('canvas').getContext('2d');
            [...group.states].forEach((letter, at) => {
              wanted.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--cell-' + map.letters[letter]);
              wanted.fillRect(at * group.size, 0, group.size, group.size);
            });
            const row = (context) => context.getImageData(0, group.size / 3, group.size * group.states.length, 1).data;
            const [one, other] = [row(group.canvas.getContext('2d')), row(wanted)];
            return [...group.states].every((letter, at) => {
              const pixel = 4 * (at * group.size + 3);
              return one.slice(pixel, pixel + 4).join() === other.slice(pixel, pixel + 4).join() && one[pixel + 3] === 255;
            })";
        assert_eq!(
            page.run(colours, vec![]).await,
            true,
            "each cell has the colour of its state"
        );

        page.open("/ui?by=region").await;
        drawn(page).await;
        page.see_in("#map", "eu-west ").await;
    });
}

#[test]
fn pointing_at_a_cell_names_its_cluster_and_a_click_opens_it() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        drawn(page).await;
        let first = canvas(page, 0).await;
        point_at(page, &first, 1).await;
        page.see_in("#map-name", ": never").await;
        let named = page.text_of("#map-name").await;
        let named = named.split(':').next().unwrap().to_owned();
        assert!(named.starts_with("dev-"), "{named}");
        point_at(page, &first, 0).await;
        page.wait("another name", async || {
            !page.text_of("#map-name").await.starts_with(&named)
        })
        .await;
        point_at(page, &first, 1).await;
        page.see_in("#map-name", &named).await;
        let click = MouseActions::new("mouse".to_owned())
            .then(PointerAction::Down { button: 0 })
            .then(PointerAction::Up { button: 0 });
        page.browser.perform_actions(click).await.unwrap();
        page.at(&format!("/ui/clusters/{named}")).await;
    });
}

#[test]
fn the_map_is_used_by_keyboard() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.sign_in(READ, "/ui").await;
        drawn(page).await;
        page.run("document.querySelectorAll('#map canvas')[1].focus()", vec![])
            .await;
        let canvas = canvas(page, 1).await;
        canvas.send_keys(&Key::Right.to_string()).await.unwrap();
        page.see_in("#map-name", ": never").await;
        let first = page.text_of("#map-name").await;
        canvas.send_keys(&Key::Right.to_string()).await.unwrap();
        page.wait("the next name", async || page.text_of("#map-name").await != first)
            .await;
        let second = page.text_of("#map-name").await;
        canvas.send_keys(&Key::Left.to_string()).await.unwrap();
        page.see_in("#map-name", &first).await;
        canvas.send_keys(&Key::Right.to_string()).await.unwrap();
        page.see_in("#map-name", &second).await;
        canvas.send_keys(&Key::Enter.to_string()).await.unwrap();
        let named = second.split(':').next().unwrap();
        page.at(&format!("/ui/clusters/{named}")).await;
        assert!(named.starts_with("prod-"), "{named}");
    });
}

#[test]
fn a_map_that_cannot_be_read_says_why() {
    let fleet = Fleet::small();
    visit(&fleet.server, async |page| {
        page.tolerate("404 (Not Found)");
        page.sign_in(READ, "/ui?by=nonsense").await;
        page.see_in("#map-problem", "no cluster has this label").await;
        page.open("/ui").await;
        page.see_in("#map", "prod").await;
        assert_eq!(page.text_of("#map-problem").await, "");
    });
}
